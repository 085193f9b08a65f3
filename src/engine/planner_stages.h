// The paper's four stages (§4.3, Algorithm 1) as a rule for the next move.
#pragma once

#include "engine/planner_moves.h"

namespace mzcache::engine {

// r's fraction is nowhere counted: pairing compressed chunks to a dropped weight unit until the
// paths balance carries it from one plan to the next. For one thread.
class FourStages {
 public:
  FourStages(PlannerMoves& moves, const PlannerOptions& options)
      : moves_(moves), options_(options) {}

  // False where no move is left that the budgets allow.
  bool next_step();

 private:
  using Item = PlannerMoves::Item;

  bool balance_chunk(const Item& chunk, EvictionStage stage);
  [[nodiscard]] bool prefers_memory(const Item& chunk) const;

  PlannerMoves& moves_;
  const PlannerOptions& options_;
};

}  // namespace mzcache::engine
