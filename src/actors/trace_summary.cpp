// Busy time per stage and its overlaps, over unions of spans (parallel workers count once).
#include <array>

#include "actors/intervals.h"
#include "actors/timeline.h"

namespace mzcache::actors {
namespace {

constexpr std::size_t kStages = static_cast<std::size_t>(Stage::kCount);

// Stages that are work of the pipeline. Passing messages on is not, and waiting is its absence.
constexpr bool is_work(std::size_t stage) {
  return stage != static_cast<std::size_t>(Stage::kHandler) &&
         stage != static_cast<std::size_t>(Stage::kWait);
}

}  // namespace

TraceSummary summarize(const std::vector<SpanRecord>& spans) {
  TraceSummary summary;
  if (spans.empty()) return summary;
  summary.begin = spans.front().begin;
  summary.end = spans.front().end;
  std::array<Intervals, kStages> busy;
  std::array<StageSummary, kStages> stages;
  for (const SpanRecord& span : spans) {
    const auto stage = static_cast<std::size_t>(span.stage);
    if (stage >= kStages || span.counter) continue;
    summary.begin = std::min(summary.begin, span.begin);
    summary.end = std::max(summary.end, span.end);
    busy[stage].emplace_back(span.begin, span.end);
    ++stages[stage].spans;
    stages[stage].bytes += span.bytes;
  }
  for (Intervals& intervals : busy) intervals = normalized(std::move(intervals));
  const Intervals& compute = busy[static_cast<std::size_t>(Stage::kCompute)];
  for (std::size_t i = 0; i < kStages; ++i) {
    if (stages[i].spans == 0) continue;
    Intervals others;
    for (std::size_t k = 0; k < kStages; ++k) {
      if (k != i && is_work(k)) others.insert(others.end(), busy[k].begin(), busy[k].end());
    }
    stages[i].stage = static_cast<Stage>(i);
    stages[i].busy = total(busy[i]);
    stages[i].with_compute = overlap(busy[i], compute);
    stages[i].with_others = overlap(busy[i], normalized(std::move(others)));
    summary.stages.push_back(stages[i]);
  }
  return summary;
}

}  // namespace mzcache::actors
