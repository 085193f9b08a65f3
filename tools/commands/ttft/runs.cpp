#include "commands/ttft/runs.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "commands/median.h"

namespace mzcache::tools {
namespace {

constexpr const char* kBaseline = "partial-offload";
// A level counts as reached within the paper's margin.
constexpr double kMarginPercent = 3;
// Runs of a reference in each repeat.
constexpr int kInMemoryRuns = 3;
// By then a virtual machine that reports free pages has given them to its host.
constexpr auto kColdAfter = std::chrono::seconds(3);

}  // namespace

ContextRuns::ContextRuns(TtftEngine& engine, StagesAlone& alone, const TtftPlan& plan,
                         std::uint32_t context)
    : engine_(engine), alone_(alone), plan_(plan) {
  bool baseline = false;
  for (const double level : plan.levels) {
    for (const auto& policy : plan.policies) {
      rows_.push_back({context, level, policy.name, true, {}});
      baseline = baseline || policy.name == kBaseline;
    }
  }
  asked_rows_ = rows_.size();
  for (const double level : plan.levels) {  // every row is compared with it
    if (!baseline) rows_.push_back({context, level, kBaseline, true, {}});
  }
}

void ContextRuns::repeat(std::uint32_t number) {
  std::vector<std::size_t> order(rows_.size() + 1);  // the last one: in memory
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(number));
  for (const std::size_t item : order) {
    std::fprintf(stderr, "\rmzcache: repeat %u of %u, %s        ", number, plan_.repeat,
                 item < rows_.size() ? rows_[item].policy.c_str() : "in memory");
    if (item < rows_.size()) {
      measure(rows_[item]);
    } else {
      measure_in_memory();
    }
  }
  std::fprintf(stderr, "\r%60s\r", "");
}

Json ContextRuns::rows() const {
  Json list = Json::array();
  for (std::size_t i = 0; i < asked_rows_; ++i) {
    TtftReferences references{median(in_memory_), median(in_memory_best_), 0};
    for (const TtftRow& row : rows_) {
      if (row.policy == kBaseline && row.asked_percent == rows_[i].asked_percent && row.reachable) {
        references.partial_offload_ms = median_ttft_ms(row);
      }
    }
    list.push_back(to_json(rows_[i], references));
  }
  return list;
}

void ContextRuns::measure_in_memory() {
  engine_.restore_all();
  for (const bool separate : {true, false}) {
    engine_.use(*engine::evaluation_policy("mzcache"), separate);
    for (int i = 0; i < kInMemoryRuns; ++i) {
      (separate ? in_memory_ : in_memory_best_)
          .push_back(engine_.first_token(plan_.prompt_tokens).answer.ttft_ms);
    }
  }
}

void ContextRuns::measure(TtftRow& row) {
  if (!row.reachable) return;
  engine_.restore_all();
  engine_.use(*engine::evaluation_policy(row.policy));
  TtftSample sample;
  sample.remaining_percent = engine_.evict_to(row.asked_percent).remaining_percent;
  row.reachable = sample.remaining_percent < row.asked_percent + kMarginPercent;
  if (!row.reachable) {
    row.samples = {sample};
    return;
  }
  prepare_memory(sample, engine_.missing());
  const FirstTokenRun run = engine_.first_token(plan_.prompt_tokens);
  sample.ttft_ms = run.answer.ttft_ms;
  sample.compute_ms = run.compute_ms;
  sample.restore = run.answer.restore;
  sample.cpu_ms = run.cpu_ms;
  sample.system_cpu_ms = run.system_cpu_ms;
  sample.idle_ms = run.idle_ms;
  row.samples.push_back(sample);
}

// Measures the stages alone and leaves free memory in the state that was asked for: warm, because
// as much as is missing was in use until now; cold, because for a while it was not.
void ContextRuns::prepare_memory(TtftSample& sample, const Missing& missing) {
  if (plan_.cold) {
    std::this_thread::sleep_for(kColdAfter);
  } else {
    (void)alone_.allocate(missing);
    alone_.let_go();
  }
  const StageCost allocate = alone_.allocate(missing);
  const StageCost read = alone_.read(missing, sample.raw_bytes_read);
  const StageCost decode = alone_.decode(missing);
  sample.work.raw_read_ms = read.ms;
  sample.work.allocate_cpu_ms = allocate.cpu_ms;
  sample.work.read_cpu_ms = read.cpu_ms;
  sample.work.decode_cpu_ms = decode.cpu_ms;
  sample.work.cores = std::max(1U, engine_.wiring().device().compute_units);
  sample.work.device_on_cores = engine_.device_on_cores();
  if (!sample.work.device_on_cores) {
    sample.work.cores = static_cast<std::uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  }
  for (const auto& chunk : missing.decodes) {
    sample.raw_chunk_bytes += engine_.shape().layout.bytes();
    sample.encoded_chunk_bytes +=
        chunk.encoded.empty() ? missing.reads[chunk.read].range.bytes : chunk.encoded.size();
  }
  alone_.let_go();
  if (plan_.cold) std::this_thread::sleep_for(kColdAfter);
}

}  // namespace mzcache::tools
