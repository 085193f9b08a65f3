// The third way back (policy.recompute): KV that a fast device computes again from its tokens
// sooner than the two restore paths bring it back is not kept at all.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/planner.h"

namespace mzcache::engine {

// What is dropped before the four stages plan the rest.
struct RecomputedChunks {
  std::vector<EvictionStep> steps;  // stage kRecompute, to kDropped
  std::uint64_t freed_bytes = 0;
  double recompute_s = 0;  // what computing them again takes
};

// Decided for a context as a whole: all its tokens at the profile's prefill rate against all its
// chunks on both restore paths at once. Positions leave, not layers: a chunk of every layer, the
// last positions first, because computing one layer's chunk again means computing those positions
// in all of them, and those before them are still of use. So up to such a column more than `bytes`
// may be freed. The chunks are taken out of `input`; what they held of its budgets is free again.
[[nodiscard]] RecomputedChunks drop_recomputed(PlannerInput& input, const PlannerOptions& options,
                                               std::uint64_t bytes);

}  // namespace mzcache::engine
