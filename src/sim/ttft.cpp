#include "sim/ttft.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/evaluation_policy.h"

namespace mzcache::sim {
namespace {

constexpr std::uint32_t kContext = 1;
constexpr std::uint64_t kEventsMax = 50'000'000;

// The first token is all that is asked for.
class FirstToken final : public engine::TokenSource {
 public:
  [[nodiscard]] Decision next(std::span<const float>, std::span<const Token>) noexcept override {
    return {0, StopReason::kLength};
  }
};

// The machine's own plan, but for the order and the paths that the policy is about.
std::unique_ptr<engine::EvictionPlanner> planner_of(const engine::EvaluationPolicy& policy,
                                                    engine::PlannerOptions usual) {
  if (policy.partial_offload) return engine::make_partial_offload_planner();
  if (policy.order != engine::EvictionOrder::kBackwardOut) usual.order = policy.order;
  if (policy.paths != engine::EvictionPaths::kHybrid) usual.paths = policy.paths;
  return engine::make_planner(usual);
}

class Experiment {
 public:
  Experiment(const MachineModel& machine, const actors::ModelDescription& model,
             const TtftOptions& options, std::uint32_t context_tokens,
             const engine::EvaluationPolicy& policy)
      : options_(options) {
    engine::EngineOptions engine;
    engine.swap_file_max = std::uint64_t{1} << 40;
    engine.swap_range_bytes = std::uint64_t{8} << 30;
    engine::set_overlaps(policy, engine);
    const engine::PlannerOptions& usual = machine.policy;
    const auto paths = policy.paths == engine::EvictionPaths::kHybrid ? usual.paths : policy.paths;
    if (paths == engine::EvictionPaths::kMemory) engine.swap_file_max = 0;
    if (paths == engine::EvictionPaths::kStorage) engine.memory_swap_max_percent = 0;
    world_ = std::make_unique<World>(options.seed, model, machine.options, engine, machine.workers,
                                     planner_of(policy, usual));
    world_->coordinator().post(
        engine::OpenContext{kContext, context_tokens + 1024, [](const Error&) {}});
    settle();
    // The question ends the context, as in `bench ttft`.
    const std::uint32_t question = std::min(options.prompt_tokens, context_tokens - 1);
    world_->plant_context(kContext, context_tokens - question);
  }

  // Percent remaining afterwards.
  double evict_to(double remaining_percent) {
    engine::EvictRequest request;
    request.id = 1;
    request.percent = 100 - remaining_percent;
    double remaining = 100;
    request.done = [&](const Error&, const EvictReport& report) {
      remaining = report.remaining_percent;
    };
    world_->coordinator().post(std::move(request));
    settle();
    return remaining;
  }

  // Recorded until the end.
  engine::GenerateResult ask() {
    engine::GenerateRequest request;
    request.id = 2;
    request.context = kContext;
    request.tokens.assign(options_.prompt_tokens, 0);
    request.source = std::make_shared<FirstToken>();
    request.accepted = world_->dispatcher().now();
    world_->timeline().enable(!options_.trace_file.empty());
    engine::GenerateResult answer;
    request.done = [&](engine::GenerateResult result) { answer = std::move(result); };
    world_->coordinator().post(std::move(request));
    settle();
    return answer;
  }

  [[nodiscard]] Result<void> write_trace() const {
    return world_->timeline().write_chrome_json(options_.trace_file);
  }

 private:
  void settle() { static_cast<void>(world_->dispatcher().run_until_quiet(kEventsMax)); }

  const TtftOptions& options_;
  std::unique_ptr<World> world_;
};

// The trace, where there is a file for it, takes the place of the one before.
Result<TtftRow> run_row(const MachineModel& machine, const actors::ModelDescription& model,
                        const TtftOptions& options, std::uint32_t context, double remaining,
                        const std::string& name) {
  Experiment experiment(machine, model, options, context, *engine::evaluation_policy(name));
  TtftRow row;
  row.context_tokens = context;
  row.asked_percent = remaining;
  row.policy = name;
  row.remaining_percent = experiment.evict_to(remaining);
  row.reachable = row.remaining_percent < remaining + 3;  // the paper's margin
  const engine::GenerateResult result = experiment.ask();
  const RestoreReport& restore = result.answer.restore;
  row.ttft_ms = result.answer.ttft_ms;
  row.allocate_ms = restore.allocate_ms;
  row.read_ms = restore.read_ms;
  row.decode_ms = restore.decode_ms;
  row.wait_ms = restore.wait_ms;
  row.compute_ms = result.answer.prefill_ms - restore.wait_ms;
  row.bytes_read = restore.bytes_read;
  row.bytes_decoded = restore.bytes_decoded;
  if (options.trace_file.empty()) return row;
  if (auto written = experiment.write_trace(); !written) return std::move(written.error());
  return row;
}

}  // namespace

Result<std::vector<TtftRow>> simulate_ttft(const MachineModel& machine,
                                           const actors::ModelDescription& model,
                                           const TtftOptions& options) {
  const std::vector<std::string>& policies =
      options.policies.empty() ? engine::evaluation_policy_names() : options.policies;
  for (const std::string& name : policies) {
    if (engine::evaluation_policy(name)) continue;
    std::string known;
    for (const std::string& policy : engine::evaluation_policy_names()) {
      known += known.empty() ? "" : ", ";
      known += policy;
    }
    std::string detail = "policy '";
    detail.append(name).append("' (there are: ").append(known).append(")");
    return Error{ErrorCode::kBadArgument, 0, "simulate", std::move(detail)};
  }
  std::vector<TtftRow> rows;
  for (const std::uint32_t context : options.contexts) {
    const auto in_memory = run_row(machine, model, options, context, 100, "mzcache");
    if (!in_memory) return in_memory.error();
    for (const double remaining : options.remaining) {
      const auto baseline = run_row(machine, model, options, context, remaining, "partial-offload");
      if (!baseline) return baseline.error();
      for (const std::string& name : policies) {
        auto row = run_row(machine, model, options, context, remaining, name);
        if (!row) return std::move(row).error();
        row->in_memory_ms = in_memory->ttft_ms;
        row->partial_offload_ms = baseline->ttft_ms;
        rows.push_back(std::move(*row));
      }
    }
  }
  return rows;
}

}  // namespace mzcache::sim
