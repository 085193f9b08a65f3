// A model with everything resident, as the planner sees it.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/model_description.h"
#include "engine/planner.h"

namespace mzcache::engine {

// The context's id.
inline constexpr std::uint32_t kPlannedContext = 1;

// PlannedUnit::stored_bytes of a chunk of so many tokens, whole chunks taking `encoded_bytes` in
// the swap file; 0, so stored raw, where that is not less or 0 itself: no codec for storage.
[[nodiscard]] std::uint64_t planned_stored_bytes(const actors::ModelDescription& model,
                                                 std::uint64_t encoded_bytes, std::uint32_t tokens);

// All weight units and the chunks of one context of so many tokens that its next token looks at,
// whole chunks taking `encoded_bytes` when compressed and `stored_bytes` (or 0, see above) when
// stored. Profile and budgets are the caller's to fill in.
[[nodiscard]] PlannerInput resident_input(const actors::ModelDescription& model,
                                          std::uint32_t context_tokens, std::uint64_t encoded_bytes,
                                          std::uint64_t stored_bytes);

// Chunks of the same context behind every window. Where they are not freed as windows pass
// (memory.free_out_of_window), an eviction gives them up first, in this order.
[[nodiscard]] std::vector<actors::UnitId> unseen_chunks(const actors::ModelDescription& model,
                                                        std::uint32_t context_tokens);

}  // namespace mzcache::engine
