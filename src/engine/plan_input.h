// A model with everything resident, as the planner sees it.
#pragma once

#include <cstdint>

#include "actors/model_description.h"
#include "engine/planner.h"

namespace mzcache::engine {

// All weight units and the chunks of one context of so many tokens, whole chunks taking
// `encoded_bytes` when compressed. Profile and budgets are the caller's to fill in.
[[nodiscard]] PlannerInput resident_input(const actors::ModelDescription& model,
                                          std::uint32_t context_tokens,
                                          std::uint64_t encoded_bytes);

}  // namespace mzcache::engine
