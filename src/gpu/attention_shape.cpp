#include "gpu/attention_shape.h"

#include <algorithm>

#include "actors/units.h"

namespace mzcache::gpu {
namespace {

// Attention over few tokens has few rows to share among the cores, so the context is cut as well:
// into at most this many ranges, of at least two chunks. The cut depends on sizes alone.
constexpr std::uint32_t kRangedTokensMax = 16;
constexpr std::uint32_t kRangesMax = 16;
constexpr std::uint32_t kRangeChunksMin = 2;
}  // namespace

std::uint32_t chunks_of(std::uint32_t positions) noexcept {
  return (positions + actors::kChunkTokens - 1) / actors::kChunkTokens;
}

std::uint32_t attention_ranges_max(std::uint32_t chunks, std::uint32_t tokens) noexcept {
  if (tokens > kRangedTokensMax) return 1;
  return std::min(kRangesMax, (chunks + kRangeChunksMin - 1) / kRangeChunksMin);
}

AttentionShape attention_shape(const actors::ModelDescription& model,
                               const actors::LayerDescription& layer, std::uint32_t first_position,
                               std::uint32_t tokens) noexcept {
  AttentionShape shape;
  shape.heads = model.heads;
  shape.kv_heads = model.kv_heads;
  shape.head_dim = model.head_dim;
  shape.first_position = first_position;
  shape.tokens = tokens;
  shape.window = layer.window;
  shape.scale = model.attention_scale;
  shape.softcap = model.attention_softcap;
  shape.first_chunk = layer.first_visible(first_position) / actors::kChunkTokens;
  const std::uint32_t chunks = chunks_of(first_position + tokens) - shape.first_chunk;
  shape.range_chunks = chunks;
  if (tokens <= kRangedTokensMax) {
    shape.range_chunks = std::max(kRangeChunksMin, (chunks + kRangesMax - 1) / kRangesMax);
  }
  shape.ranges = (chunks + shape.range_chunks - 1) / shape.range_chunks;
  return shape;
}

}  // namespace mzcache::gpu
