#include "engine/planner.h"

#include <algorithm>
#include <utility>

#include "engine/planner_moves.h"
#include "engine/planner_optimal.h"
#include "engine/planner_recompute.h"
#include "engine/planner_stages.h"

namespace mzcache::engine {
namespace {

// Immutable, so thread-safe.
class Planner final : public EvictionPlanner {
 public:
  explicit Planner(const PlannerOptions& options) : options_(options) {}

  [[nodiscard]] EvictionPlan plan(const PlannerInput& input, std::uint64_t bytes) const override {
    if (!options_.recompute) return staged(input, bytes);
    PlannerInput rest = input;
    RecomputedChunks dropped = drop_recomputed(rest, options_, bytes);
    EvictionPlan plan = staged(rest, bytes - std::min(bytes, dropped.freed_bytes));
    plan.steps.insert(plan.steps.begin(), dropped.steps.begin(), dropped.steps.end());
    plan.freed_bytes += dropped.freed_bytes;
    plan.recompute_s = dropped.recompute_s;
    return plan;
  }

 private:
  [[nodiscard]] EvictionPlan staged(const PlannerInput& input, std::uint64_t bytes) const {
    PlannerMoves moves(input, options_);
    if (options_.order == EvictionOrder::kOptimal) ShortestTime(moves, options_).run(bytes);
    // The stages also end what the shortest time leaves where budgets are in its way.
    FourStages stages(moves, options_);
    while (moves.freed() < bytes && stages.next_step()) {
    }
    return std::move(moves).finish();
  }

  PlannerOptions options_;
};

}  // namespace

std::unique_ptr<EvictionPlanner> make_planner(const PlannerOptions& options) {
  return std::make_unique<Planner>(options);
}

}  // namespace mzcache::engine
