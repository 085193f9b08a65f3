// The decoding half of channel_quantiser.h: symbols back to where they lie in a chunk.
#include <cstring>

#include "codec/channel_quantiser.h"
#include "codec/chunk_values.h"

namespace mzcache::codec {

using actors::ChunkLayout;
using Order = ChunkLayout::Order;

void ChannelQuantiser::put_keys(std::byte* chunk, const ChannelPlan& plan, std::uint32_t tile,
                                std::uint32_t head, const std::int16_t* symbols) {
  const ChunkLayout& layout = geometry_.layout;
  const std::uint32_t first = head * layout.head_dim;
  if (in_place(tile)) {
    std::byte* const rows = chunk + 2 * k_index(layout, tile * kRowValues, first);
    // Streaming stores keep what is decoded out of the caches; they need whole lines.
    const bool streaming = reinterpret_cast<std::uintptr_t>(rows) % kRowBytes == 0;
    kernels_.dequantise_keys(key_tile(plan, head), symbols, rows, streaming);
    return;
  }
  kernels_.dequantise_keys(key_tile(plan, head), symbols, work_.staging.data(), false);
  for (std::uint32_t dim = 0; dim < layout.head_dim; ++dim) {
    for (std::uint32_t lane = 0; lane < lanes(tile); ++lane) {
      std::memcpy(chunk + 2 * k_index(layout, tile * kRowValues + lane, first + dim),
                  work_.staging.data() + dim * kRowBytes + 2 * std::size_t{lane}, 2);
    }
  }
}

void ChannelQuantiser::put_values(std::byte* chunk, const ChannelPlan& plan, std::uint32_t head,
                                  std::uint32_t block, std::uint32_t first, std::uint32_t rows,
                                  const std::int16_t* symbols) {
  const ChunkLayout& layout = geometry_.layout;
  std::byte* const values = chunk + 2 * layout.values_per_half();
  const std::uint32_t channel = head * layout.head_dim + block * kRowValues;
  const std::uint32_t wide = geometry_.block_width(block);
  const ValueBlock of_plan = value_block(plan, head, block);
  const float* const scales = work_.scales.data() + first;
  if (wide == kRowValues) {
    const std::size_t stride =
        layout.order == Order::kTiled ? kRowBytes : std::size_t{2} * geometry_.width;
    std::byte* const to = values + 2 * v_index(layout, first, channel);
    const bool streaming =
        stride == kRowBytes && reinterpret_cast<std::uintptr_t>(to) % kRowBytes == 0;
    kernels_.dequantise_values(of_plan, scales, symbols, rows, to, stride, streaming);
    return;
  }
  kernels_.dequantise_values(of_plan, scales, symbols, rows, work_.staging.data(), kRowBytes,
                             false);
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::memcpy(values + 2 * v_index(layout, first + row, channel),
                work_.staging.data() + row * kRowBytes, std::size_t{2} * wide);
  }
}

void ChannelQuantiser::finish() { kernels_.fence(); }

void ChannelQuantiser::copy_raw(const std::byte* chunk, bool values, std::uint32_t token,
                                std::byte* row) const {
  const ChunkLayout& layout = geometry_.layout;
  for (std::uint32_t channel = 0; channel < geometry_.width; ++channel) {
    const std::uint64_t index = values ? layout.values_per_half() + v_index(layout, token, channel)
                                       : k_index(layout, token, channel);
    std::memcpy(row + std::size_t{2} * channel, chunk + 2 * index, 2);
  }
}

void ChannelQuantiser::put_raw(std::byte* chunk, bool values, std::uint32_t token,
                               const std::byte* row) const {
  const ChunkLayout& layout = geometry_.layout;
  for (std::uint32_t channel = 0; channel < geometry_.width; ++channel) {
    const std::uint64_t index = values ? layout.values_per_half() + v_index(layout, token, channel)
                                       : k_index(layout, token, channel);
    std::memcpy(chunk + 2 * index, row + std::size_t{2} * channel, 2);
  }
}

}  // namespace mzcache::codec
