// How attention over a slice is cut up. Depends on sizes alone, so that results never depend on
// timing.
#pragma once

#include <cstdint>

#include "actors/model_description.h"

namespace mzcache::gpu {

struct AttentionShape {
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t first_position = 0;
  std::uint32_t tokens = 0;
  std::uint32_t window = 0;
  float scale = 1;
  float softcap = 0;
  std::uint32_t first_chunk = 0;
  std::uint32_t ranges = 1;
  std::uint32_t range_chunks = 1;
};

[[nodiscard]] std::uint32_t chunks_of(std::uint32_t positions) noexcept;
// The most ranges that `tokens` queries over so many chunks are cut into.
[[nodiscard]] std::uint32_t attention_ranges_max(std::uint32_t chunks,
                                                 std::uint32_t tokens) noexcept;
[[nodiscard]] AttentionShape attention_shape(const actors::ModelDescription& model,
                                             const actors::LayerDescription& layer,
                                             std::uint32_t first_position,
                                             std::uint32_t tokens) noexcept;

}  // namespace mzcache::gpu
