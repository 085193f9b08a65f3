// FP16 in portable C++: the two conversions as F16C and NEON do them (round to nearest even,
// denormals kept, NaN quieted), so that scalar code agrees with SIMD bit for bit.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mzcache::codec {

// Both work out every case and choose, so that compilers may convert several values at once.
inline float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::int32_t magnitude = half & 0x7FFF;
  // Infinity, or NaN (made quiet).
  const std::int32_t quiet = magnitude > 0x7C00 ? 0x00400000 : 0;
  const std::int32_t large = 0x7F800000 | quiet | magnitude << 13;
  // Zero or denormal: a multiple of 2^-24.
  const auto small = std::bit_cast<std::int32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  const std::int32_t normal = (magnitude << 13) + (112 << 23);
  const std::int32_t finite = magnitude < 0x0400 ? small : normal;
  const std::int32_t value = magnitude < 0x7C00 ? finite : large;
  return std::bit_cast<float>(sign | static_cast<std::uint32_t>(value));
}

inline std::uint16_t float_to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  // Signed: what is compared has no sign bit, and processors without AVX-512 compare nothing else.
  const auto magnitude = static_cast<std::int32_t>(bits & 0x7FFFFFFFU);
  const std::int32_t nan = 0x7E00 | (magnitude >> 13 & 0x3FF);
  const std::int32_t large = magnitude > 0x7F800000 ? nan : 0x7C00;
  // Below 2^-14: adding 0.5 leaves multiples of 2^-24. (Above, the sum means nothing.)
  const std::int32_t small =
      std::bit_cast<std::int32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000;
  const std::int32_t normal = (magnitude - (112 << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  const std::int32_t finite = magnitude < 0x38800000 ? small : normal;
  const std::int32_t half = magnitude < 0x47800000 ? finite : large;
  return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(half));
}

// Encoded chunks lie at any address, so 16-bit values are moved by memcpy.
inline std::uint16_t load_half(const std::byte* from) noexcept {
  std::uint16_t half = 0;
  std::memcpy(&half, from, sizeof half);
  return half;
}
inline void store_half(std::byte* to, std::uint16_t half) noexcept {
  std::memcpy(to, &half, sizeof half);
}

}  // namespace mzcache::codec
