#include "codec/chunk_values.h"

#include <algorithm>
#include <cstring>

namespace mzcache::codec {
namespace {

constexpr std::uint32_t kTile = 32;
constexpr std::uint64_t kValueBytes = 2;

// Calls visit(chunk_offset, bytes) for each contiguous run of valid values, ascending.
template <class Visit>
void for_each_run(const actors::ChunkLayout& layout, std::uint32_t token_count, Visit visit) {
  const std::uint64_t half = layout.values_per_half() * kValueBytes;
  if (token_count == layout.tokens) {
    visit(0, 2 * half);
    return;
  }
  const std::uint64_t width = std::uint64_t{layout.kv_heads} * layout.head_dim;
  if (layout.order == actors::ChunkLayout::Order::kRowMajor) {
    visit(0, width * token_count * kValueBytes);
    visit(half, width * token_count * kValueBytes);
    return;
  }
  for (std::uint32_t head = 0; head < layout.kv_heads; ++head) {
    for (std::uint32_t first = 0; first < token_count; first += kTile) {
      const std::uint64_t lanes = std::min(kTile, token_count - first);
      const std::uint64_t tile = std::uint64_t{head} * layout.head_dim * layout.tokens +
                                 std::uint64_t{first} * layout.head_dim;
      for (std::uint32_t dim = 0; dim < layout.head_dim; ++dim) {
        visit((tile + std::uint64_t{dim} * kTile) * kValueBytes, lanes * kValueBytes);
      }
    }
  }
  for (std::uint32_t head = 0; head < layout.kv_heads; ++head) {
    for (std::uint32_t dim = 0; dim < layout.head_dim; dim += kTile) {
      const std::uint64_t block_width = std::min(kTile, layout.head_dim - dim);
      const std::uint64_t block = (std::uint64_t{head} * layout.head_dim + dim) * layout.tokens;
      visit(half + block * kValueBytes, block_width * token_count * kValueBytes);
    }
  }
}

}  // namespace

std::uint64_t k_index(const actors::ChunkLayout& layout, std::uint32_t token,
                      std::uint32_t channel) noexcept {
  if (layout.order == actors::ChunkLayout::Order::kRowMajor) {
    return std::uint64_t{token} * layout.kv_heads * layout.head_dim + channel;
  }
  const std::uint64_t head = channel / layout.head_dim;
  const std::uint64_t dim = channel % layout.head_dim;
  const std::uint64_t tile = token / kTile;
  return head * layout.head_dim * layout.tokens + (tile * layout.head_dim + dim) * kTile +
         token % kTile;
}

std::uint64_t v_index(const actors::ChunkLayout& layout, std::uint32_t token,
                      std::uint32_t channel) noexcept {
  if (layout.order == actors::ChunkLayout::Order::kRowMajor) {
    return std::uint64_t{token} * layout.kv_heads * layout.head_dim + channel;
  }
  const std::uint64_t head = channel / layout.head_dim;
  const std::uint32_t dim = channel % layout.head_dim;
  const std::uint32_t block_first = dim / kTile * kTile;
  const std::uint64_t block_width = std::min(kTile, layout.head_dim - block_first);
  return (head * layout.head_dim + block_first) * layout.tokens + token * block_width +
         (dim - block_first);
}

void pack_valid(const actors::ChunkLayout& layout, std::uint32_t token_count,
                const std::byte* chunk, std::byte* packed) noexcept {
  for_each_run(layout, token_count, [&](std::uint64_t offset, std::uint64_t bytes) {
    std::memcpy(packed, chunk + offset, bytes);
    packed += bytes;
  });
}

void unpack_valid(const actors::ChunkLayout& layout, std::uint32_t token_count,
                  const std::byte* packed, std::byte* chunk) noexcept {
  for_each_run(layout, token_count, [&](std::uint64_t offset, std::uint64_t bytes) {
    std::memcpy(chunk + offset, packed, bytes);
    packed += bytes;
  });
}

}  // namespace mzcache::codec
