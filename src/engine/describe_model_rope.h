// Rotary position embedding as a file's metadata describes it.
#pragma once

#include <optional>

#include "engine/describe_model_family.h"
#include "engine/describe_model_keys.h"

namespace mzcache::engine {

struct RopeDescriptions {
  actors::RopeDescription all;
  std::optional<actors::RopeDescription> windowed;  // of layers with a window, where it is another
};

// Scaling none, linear or yarn; failures are those of `keys`.
[[nodiscard]] RopeDescriptions describe_rope(ModelKeys& keys, const ModelFamily& family,
                                             std::uint32_t head_dim, std::uint32_t context_length);
// The file's divisors of the inverse frequencies come on top of what scaling made of them.
void apply_factors(actors::RopeDescription& rope, const std::vector<float>& factors);

}  // namespace mzcache::engine
