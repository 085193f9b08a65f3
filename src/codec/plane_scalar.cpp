// The reference for the plane kernels.
#include <algorithm>
#include <cstring>

#include "codec/plane_kernels.h"

namespace mzcache::codec {
namespace {

BlockEnds ends_of(const std::int16_t* symbols) {
  const auto [least, most] = std::minmax_element(symbols, symbols + kPlaneValues);
  return {*least, *most};
}

int count_equal(const std::int16_t* symbols, int value) {
  return static_cast<int>(std::count(symbols, symbols + kPlaneValues, value));
}

void limit(std::int16_t* symbols, int least, int most) {
  for (std::uint32_t i = 0; i < kPlaneValues; ++i) {
    symbols[i] = static_cast<std::int16_t>(std::clamp<int>(symbols[i], least, most));
  }
}

#include "codec/plane_clamp.inl"

void pack(const std::int16_t* symbols, const PlaneRange& range, std::byte* planes) {
  for (unsigned plane = 0; plane < range.width; ++plane) {
    std::uint64_t bits = 0;
    for (std::uint32_t i = 0; i < kPlaneValues; ++i) {
      const auto offset = static_cast<unsigned>(symbols[i] - range.least);
      bits |= static_cast<std::uint64_t>(offset >> plane & 1U) << i;
    }
    std::memcpy(planes + std::size_t{8} * plane, &bits, sizeof bits);
  }
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

const PlaneKernels kPlaneScalar{"scalar", clamp, pack, unpack_blocks, transpose};

}  // namespace mzcache::codec
