// order = "optimal": the shortest time in which the two restore paths can bring back what must go.
#pragma once

#include <cstdint>

#include "engine/planner_moves.h"

namespace mzcache::engine {

// Reading frees the same bytes per second whatever is read, so storage may take weights first, then
// encoded chunks, and chunks as they lay in memory last; the memory path takes all chunks it can
// decode meanwhile. Given a time, both paths are filled; the shortest time that frees enough is
// found by bisection. What differs from the paper's stages:
//  - chunks are not held back for weights that leave later (KVonly): once the weights are gone the
//    storage path is balanced with encoded chunks, which read faster than those KVonly writes raw;
//  - a weight unit leaves only where its time fits, so a small request does not drop a large head.
// The whole request is looked at once: plan(a) then plan(b) may differ from plan(a + b).
class ShortestTime {
 public:
  ShortestTime(PlannerMoves& moves, const PlannerOptions& options)
      : moves_(moves), options_(options) {}

  // Makes the moves. May free less than `bytes` where budgets are in the way.
  void run(std::uint64_t bytes);

 private:
  // How many units leave for where.
  struct Filling {
    std::size_t weights = 0;
    std::size_t compressed = 0;  // resident chunks to memory, the stored_encoded ones included
    std::size_t encoded = 0;     // of all compressed chunks, rearmost first, on to storage
    std::size_t stored = 0;
    std::uint64_t freed = 0;
  };
  enum class Head : bool { kFirst, kLast };

  [[nodiscard]] Filling fill(Picoseconds time, Head head) const;
  void fill_encoded(Picoseconds time, Filling& filling, PathTimes& owed,
                    std::uint64_t& storage_free) const;
  [[nodiscard]] Picoseconds shortest(std::uint64_t bytes, Head head) const;
  [[nodiscard]] Picoseconds longest() const;

  PlannerMoves& moves_;
  const PlannerOptions& options_;
};

}  // namespace mzcache::engine
