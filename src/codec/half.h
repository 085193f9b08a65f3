// FP16 in portable C++: the two conversions as F16C and NEON do them (round to nearest even,
// denormals kept, NaN quieted), so that scalar code agrees with SIMD bit for bit.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mzcache::codec {

inline float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7FFFU;
  if (magnitude >= 0x7C00U) {  // infinity, or NaN (made quiet)
    const std::uint32_t quiet = magnitude > 0x7C00U ? 0x00400000U : 0U;
    return std::bit_cast<float>(sign | 0x7F800000U | quiet | (magnitude & 0x3FFU) << 13);
  }
  if (magnitude < 0x0400U) {  // zero or denormal: a multiple of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
}

inline std::uint16_t float_to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return static_cast<std::uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x3FFU));
  }
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 leaves multiples of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
  }
  magnitude += 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((magnitude - (112U << 23)) >> 13));
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
