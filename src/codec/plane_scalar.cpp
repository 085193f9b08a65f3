// The reference for the plane kernels.
#include <algorithm>
#include <cstring>

#include "codec/plane_kernels.h"

namespace mzcache::codec {
namespace {

#include "codec/plane_clamp.inl"

std::byte* pack_block(std::int16_t* low, std::int16_t* high, std::byte* out) {
  const auto [low_least, low_most] = std::minmax_element(low, low + kPlaneValues / 2);
  const auto [high_least, high_most] = std::minmax_element(high, high + kPlaneValues / 2);
  const PlaneRange range{std::min(*low_least, *high_least), 0};
  return pack_plain_block(low, high, range, std::max(*low_most, *high_most), out);
}

void unpack(const std::byte* planes, const PlaneRange& range, std::int16_t* low,
            std::int16_t* high) {
  std::uint16_t offsets[kPlaneValues] = {};
  for (unsigned plane = 0; plane < range.width; ++plane) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, planes + std::size_t{8} * plane, sizeof bits);
    for (std::uint32_t i = 0; i < kPlaneValues; ++i) {
      offsets[i] = static_cast<std::uint16_t>(offsets[i] | (bits >> i & 1U) << plane);
    }
  }
  for (std::uint32_t i = 0; i < kPlaneValues / 2; ++i) {
    low[i] = static_cast<std::int16_t>(range.least + offsets[i]);
    high[i] = static_cast<std::int16_t>(range.least + offsets[i + kPlaneValues / 2]);
  }
}

#include "codec/plane_blocks.inl"

void transpose(const std::int16_t* from, std::size_t from_stride, std::int16_t* to,
               std::size_t to_stride) {
  for (std::size_t row = 0; row < 32; ++row) {
    for (std::size_t column = 0; column < 32; ++column) {
      to[column * to_stride + row] = from[row * from_stride + column];
    }
  }
}

}  // namespace

const PlaneKernels kPlaneScalar{"scalar", pack_blocks, unpack_blocks, transpose};

}  // namespace mzcache::codec
