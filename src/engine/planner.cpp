#include "engine/planner.h"

#include <utility>

#include "engine/planner_moves.h"
#include "engine/planner_optimal.h"
#include "engine/planner_stages.h"

namespace mzcache::engine {
namespace {

// Immutable, so thread-safe.
class Planner final : public EvictionPlanner {
 public:
  explicit Planner(const PlannerOptions& options) : options_(options) {}

  [[nodiscard]] EvictionPlan plan(const PlannerInput& input, std::uint64_t bytes) const override {
    PlannerMoves moves(input, options_);
    if (options_.order == EvictionOrder::kOptimal) ShortestTime(moves, options_).run(bytes);
    // The stages also end what the shortest time leaves where budgets are in its way.
    FourStages stages(moves, options_);
    while (moves.freed() < bytes && stages.next_step()) {
    }
    return std::move(moves).finish();
  }

 private:
  PlannerOptions options_;
};

}  // namespace

std::unique_ptr<EvictionPlanner> make_planner(const PlannerOptions& options) {
  return std::make_unique<Planner>(options);
}

}  // namespace mzcache::engine
