// Random weights in a tensor type's own bytes, at memory speed. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "actors/model_description.h"

namespace mzcache::synth {

// xoshiro256** (Blackman, Vigna 2018), seeded by splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept;
  std::uint64_t operator()() noexcept {
    const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

 private:
  static std::uint64_t rotate(std::uint64_t x, int k) noexcept {
    return (x << k) | (x >> (64 - k));
  }
  std::array<std::uint64_t, 4> state_;
};

// Round to nearest even; overflow becomes infinity.
[[nodiscard]] std::uint16_t half_bits(float value) noexcept;
[[nodiscard]] std::uint16_t bfloat_bits(float value) noexcept;

// Fills whole blocks of `type` with values of mean 0 and this standard deviation: normal for the
// float types, uniform quants for the others. Types: f32, f16, bf16,
// q8_0, q4_0, q4_1; others stay untouched.
class WeightSource {
 public:
  WeightSource(actors::TensorType type, double deviation, std::uint64_t seed);
  void fill(std::span<std::byte> blocks);

 private:
  static constexpr std::size_t kTableSize = 4096;
  template <class T>
  void fill_floats(std::span<std::byte> out, const std::array<T, kTableSize>& table);
  void fill_quants(std::span<std::byte> out, std::size_t quant_bytes, bool minimum);

  actors::TensorType type_;
  Random random_;
  std::array<float, kTableSize> floats_;          // quantiles of the normal distribution
  std::array<std::uint16_t, kTableSize> halves_;  // the same in f16 or bf16
  std::uint16_t scale_ = 0;                       // f16, of a block
  float scale_value_ = 0;
};

}  // namespace mzcache::synth
