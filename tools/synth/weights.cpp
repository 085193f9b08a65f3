#include "synth/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace mzcache::synth {
namespace {

using actors::TensorType;

// Standard deviations of the quants as they are drawn: uniform bytes and nibbles.
constexpr double kByteDeviation = 73.9;
constexpr double kNibbleDeviation = 4.61;

double normal_quantile(double probability) {
  double low = -8;
  double high = 8;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < probability ? low : high) = middle;
  }
  return low;
}

}  // namespace

Random::Random(std::uint64_t seed) noexcept : state_{} {
  for (std::uint64_t& word : state_) {
    seed += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    word = z ^ (z >> 31);
  }
}

std::uint16_t half_bits(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 6.103515625e-05F) {  // subnormal: a whole multiple of 2^-24
    return static_cast<std::uint16_t>(sign |
                                      static_cast<std::uint32_t>(std::lrintf(magnitude * 0x1p24F)));
  }
  std::uint32_t rounded = (bits & 0x7FFFFFFFU) - (112U << 23);
  rounded += 0xFFFU + ((rounded >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

std::uint16_t bfloat_bits(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

WeightSource::WeightSource(TensorType type, double deviation, std::uint64_t seed)
    : type_(type), random_(seed), floats_{}, halves_{} {
  static const std::array<double, kTableSize> kQuantiles = [] {
    std::array<double, kTableSize> quantiles{};
    for (std::size_t i = 0; i < kTableSize; ++i) {
      quantiles[i] = normal_quantile((static_cast<double>(i) + 0.5) / kTableSize);
    }
    return quantiles;
  }();
  for (std::size_t i = 0; i < kTableSize; ++i) {
    floats_[i] = static_cast<float>(kQuantiles[i] * deviation);
    halves_[i] = type == TensorType::kBF16 ? bfloat_bits(floats_[i]) : half_bits(floats_[i]);
  }
  const double quant = type == TensorType::kQ8_0 ? kByteDeviation : kNibbleDeviation;
  scale_value_ = static_cast<float>(deviation / quant);
  scale_ = half_bits(scale_value_);
}

template <class T>
void WeightSource::fill_floats(std::span<std::byte> out, const std::array<T, kTableSize>& table) {
  constexpr std::size_t kLanes = 4;  // of 12 bits each from one draw
  const std::size_t count = out.size() / sizeof(T);
  for (std::size_t i = 0; i < count; i += kLanes) {
    const std::uint64_t bits = random_();
    const std::array<T, kLanes> values = {table[bits & 0xFFF], table[(bits >> 16) & 0xFFF],
                                          table[(bits >> 32) & 0xFFF], table[(bits >> 48) & 0xFFF]};
    const std::size_t bytes = std::min(kLanes, count - i) * sizeof(T);
    std::memcpy(out.data() + i * sizeof(T), values.data(), bytes);
  }
}

// Scale, for some types the minimum, then quants: any bits are valid quants. The scale's sign is
// random too, so that q4_0's uneven range (-8 … 7) has no mean.
void WeightSource::fill_quants(std::span<std::byte> out, std::size_t quant_bytes, bool minimum) {
  const std::uint16_t lowest = half_bits(-7.5F * scale_value_);
  const std::size_t head = minimum ? 4 : 2;
  for (std::size_t at = 0; at < out.size(); at += head + quant_bytes) {
    std::byte* block = out.data() + at;
    std::uint16_t scale = scale_;
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < quant_bytes; i += sizeof(word)) {
      word = random_();
      std::memcpy(block + head + i, &word, sizeof(word));
    }
    if (minimum) {
      std::memcpy(block + 2, &lowest, sizeof(lowest));
    } else if (std::popcount(word) % 2 != 0) {
      scale ^= 0x8000U;
    }
    std::memcpy(block, &scale, sizeof(scale));
  }
}

void WeightSource::fill(std::span<std::byte> blocks) {
  switch (type_) {
    case TensorType::kF32:
      return fill_floats(blocks, floats_);
    case TensorType::kF16:
    case TensorType::kBF16:
      return fill_floats(blocks, halves_);
    case TensorType::kQ8_0:
      return fill_quants(blocks, 32, false);
    case TensorType::kQ4_0:
      return fill_quants(blocks, 16, false);
    case TensorType::kQ4_1:
      return fill_quants(blocks, 16, true);
    default:
      return;
  }
}

}  // namespace mzcache::synth
