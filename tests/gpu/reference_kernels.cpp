#include "gpu/reference_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mzcache::test {
namespace {

using actors::TensorType;

std::uint8_t byte_at(const std::byte* block, std::size_t at) {
  return std::to_integer<std::uint8_t>(block[at]);
}
float half_at(const std::byte* block, std::size_t at) {
  return half_to_float(
      static_cast<std::uint16_t>(byte_at(block, at) | (byte_at(block, at + 1) << 8)));
}

// Nibble of value i in 16 bytes that hold values 0 … 15 low and 16 … 31 high.
int nibble(const std::byte* quants, std::uint32_t i) {
  const int both = byte_at(quants, i % 16);
  return i < 16 ? both & 15 : both >> 4;
}
int fifth_bit(const std::byte* bits, std::uint32_t i) {
  return (byte_at(bits, i / 8) >> (i % 8)) & 1;
}

struct ScaleAndMinimum {
  int scale = 0;
  int minimum = 0;
};
// Eight 6-bit pairs in 12 bytes.
ScaleAndMinimum k_scale(const std::byte* s, std::uint32_t j) {
  if (j < 4) return {byte_at(s, j) & 63, byte_at(s, j + 4) & 63};
  return {(byte_at(s, j + 4) & 15) | ((byte_at(s, j - 4) >> 6) << 4),
          (byte_at(s, j + 4) >> 4) | ((byte_at(s, j) >> 6) << 4)};
}

float k_value(const std::byte* block, std::uint32_t i, const std::byte* high,
              const std::byte* quants) {
  const std::uint32_t j = i / 32;
  const auto [scale, minimum] = k_scale(block + 4, j);
  const int both = byte_at(quants, i / 64 * 32 + i % 32);
  int q = j % 2 == 0 ? both & 15 : both >> 4;
  if (high != nullptr) q |= ((byte_at(high, i % 32) >> j) & 1) << 4;
  return half_at(block, 0) * static_cast<float>(scale) * static_cast<float>(q) -
         half_at(block, 2) * static_cast<float>(minimum);
}

float q6_k_value(const std::byte* block, std::uint32_t i) {
  const std::uint32_t half = i / 128;
  const std::uint32_t quarter = i % 128 / 32;
  const std::uint32_t l = i % 32;
  const int low_both = byte_at(block, half * 64 + (quarter % 2) * 32 + l);
  const int low = quarter < 2 ? low_both & 15 : low_both >> 4;
  const int high = (byte_at(block, 128 + half * 32 + l) >> (quarter * 2)) & 3;
  const auto scale = static_cast<std::int8_t>(byte_at(block, 192 + i / 16));
  return half_at(block, 208) * static_cast<float>(scale) *
         static_cast<float>((low | (high << 4)) - 32);
}

// Where a block holds FP16 scales, so that random ones stay finite.
std::vector<std::size_t> scale_offsets(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
    case TensorType::kQ5_0:
    case TensorType::kQ8_0:
      return {0};
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {0, 2};
    case TensorType::kQ6_K:
      return {208};
    default:
      return {};
  }
}

float typical_scale(TensorType type) {
  switch (type) {
    case TensorType::kQ8_0:
      return 1.0F / 128;
    case TensorType::kQ4_K:
      return 1.0F / 1024;
    case TensorType::kQ5_K:
      return 1.0F / 2048;
    case TensorType::kQ6_K:
      return 1.0F / 4096;
    default:
      return 1.0F / 16;
  }
}

}  // namespace

float half_to_float(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

std::uint16_t float_to_half(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (!(magnitude < 65520.0F)) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), -14);
  // Steps of 2^(exponent − 10); nearbyint rounds to even.
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + steps));
}

const std::vector<TensorType>& all_tensor_types() {
  static const std::vector<TensorType> types = {
      TensorType::kF32,  TensorType::kF16,  TensorType::kBF16, TensorType::kQ4_0,
      TensorType::kQ4_1, TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ8_0,
      TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K};
  return types;
}

std::uint64_t row_bytes(TensorType type, std::uint32_t columns) {
  const auto traits = actors::tensor_type_traits(type);
  return std::uint64_t{columns} / traits.block_values * traits.block_bytes;
}

std::vector<float> random_floats(std::size_t count, float scale, Random& random) {
  std::uniform_real_distribution<float> distribution(-scale, scale);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(random);
  return values;
}

std::vector<std::byte> random_blocks(TensorType type, std::uint32_t rows, std::uint32_t columns,
                                     Random& random) {
  std::vector<std::byte> bytes(row_bytes(type, columns) * rows);
  const auto put_half = [&](std::size_t at, std::uint16_t bits) {
    std::memcpy(bytes.data() + at, &bits, sizeof bits);
  };
  if (type == TensorType::kF32) {
    const auto values = random_floats(std::size_t{rows} * columns, 1, random);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  if (type == TensorType::kF16 || type == TensorType::kBF16) {
    const auto values = random_floats(std::size_t{rows} * columns, 1, random);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, &values[i], sizeof word);
      put_half(i * 2, type == TensorType::kF16 ? float_to_half(values[i])
                                               : static_cast<std::uint16_t>(word >> 16));
    }
    return bytes;
  }
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255);
  const std::size_t block_bytes = actors::tensor_type_traits(type).block_bytes;
  std::uniform_real_distribution<float> scale(0.25F, 1.0F);
  for (std::size_t block = 0; block < bytes.size(); block += block_bytes) {
    for (const std::size_t at : scale_offsets(type)) {
      put_half(block + at, float_to_half(scale(random) * typical_scale(type)));
    }
  }
  return bytes;
}

float dequantised(TensorType type, const std::byte* row, std::uint32_t index) {
  const auto traits = actors::tensor_type_traits(type);
  const std::byte* block = row + std::size_t{index} / traits.block_values * traits.block_bytes;
  const std::uint32_t i = index % traits.block_values;
  switch (type) {
    case TensorType::kF32: {
      float value = 0;
      std::memcpy(&value, block, sizeof value);
      return value;
    }
    case TensorType::kF16:
      return half_at(block, 0);
    case TensorType::kBF16: {
      const std::uint32_t word =
          (std::uint32_t{byte_at(block, 0)} << 16) | (std::uint32_t{byte_at(block, 1)} << 24);
      float value = 0;
      std::memcpy(&value, &word, sizeof value);
      return value;
    }
    case TensorType::kQ4_0:
      return static_cast<float>(nibble(block + 2, i) - 8) * half_at(block, 0);
    case TensorType::kQ4_1:
      return static_cast<float>(nibble(block + 4, i)) * half_at(block, 0) + half_at(block, 2);
    case TensorType::kQ5_0:
      return static_cast<float>((nibble(block + 6, i) | (fifth_bit(block + 2, i) << 4)) - 16) *
             half_at(block, 0);
    case TensorType::kQ5_1:
      return static_cast<float>(nibble(block + 8, i) | (fifth_bit(block + 4, i) << 4)) *
                 half_at(block, 0) +
             half_at(block, 2);
    case TensorType::kQ8_0:
      return static_cast<float>(static_cast<std::int8_t>(byte_at(block, 2 + i))) *
             half_at(block, 0);
    case TensorType::kQ4_K:
      return k_value(block, i, nullptr, block + 16);
    case TensorType::kQ5_K:
      return k_value(block, i, block + 16, block + 48);
    case TensorType::kQ6_K:
      return q6_k_value(block, i);
  }
  return NAN;
}

std::vector<float> dequantised_row(TensorType type, const std::byte* row, std::uint32_t columns) {
  std::vector<float> values(columns);
  for (std::uint32_t i = 0; i < columns; ++i) values[i] = dequantised(type, row, i);
  return values;
}

std::vector<double> reference_matmul(std::span<const float> weights, std::span<const double> x,
                                     std::uint32_t rows) {
  std::vector<double> y(rows);
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < x.size(); ++c) y[r] += double{weights[r * x.size() + c]} * x[c];
  }
  return y;
}

std::vector<double> reference_norm(std::span<const double> x, std::span<const float> weight,
                                   double epsilon) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double divide = std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] / divide * double{weight[i]};
  return y;
}

std::vector<double> reference_rope(const actors::RopeDescription& rope,
                                   std::span<const double> head, std::uint32_t position) {
  std::vector<double> out(head.begin(), head.end());
  const bool split = rope.pairing == actors::RopeDescription::Pairing::kSplitHalves;
  const std::uint32_t pairs = rope.dimensions / 2;
  for (std::uint32_t i = 0; i < pairs; ++i) {
    double angle =
        double{rope.scale} * position * std::pow(double{rope.base}, -2.0 * i / rope.dimensions);
    if (!rope.factors.empty()) angle /= double{rope.factors[i]};
    const std::uint32_t a = split ? i : 2 * i;
    const std::uint32_t b = split ? i + pairs : 2 * i + 1;
    const double cosine = std::cos(angle) * double{rope.magnitude};
    const double sine = std::sin(angle) * double{rope.magnitude};
    out[a] = head[a] * cosine - head[b] * sine;
    out[b] = head[a] * sine + head[b] * cosine;
  }
  return out;
}

double reference_silu(double x) { return x / (1 + std::exp(-x)); }

double reference_gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

std::vector<double> reference_attention(const ReferenceAttention& how,
                                        std::span<const double> query,
                                        const std::vector<std::vector<double>>& keys,
                                        const std::vector<std::vector<double>>& values,
                                        std::uint32_t position) {
  const std::uint32_t first =
      how.window != 0 && position + 1 > how.window ? position + 1 - how.window : 0;
  std::vector<double> scores;
  for (std::uint32_t t = first; t <= position; ++t) {
    double score = 0;
    for (std::size_t d = 0; d < query.size(); ++d) score += query[d] * keys[t][d];
    score *= how.scale;
    if (how.softcap > 0) score = std::tanh(score / how.softcap) * how.softcap;
    scores.push_back(score);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  std::vector<double> out(query.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double weight = std::exp(scores[i] - largest);
    total += weight;
    for (std::size_t d = 0; d < out.size(); ++d) out[d] += weight * values[first + i][d];
  }
  for (double& value : out) value /= total;
  return out;
}

std::size_t chunk_index(const actors::ChunkLayout& layout, bool value, std::uint32_t kv_head,
                        std::uint32_t token, std::uint32_t dim) {
  const std::size_t head = std::size_t{kv_head} * layout.head_dim * layout.tokens;
  if (!value) return head + (std::size_t{token} / 32 * layout.head_dim + dim) * 32 + token % 32;
  const std::uint32_t block = dim / 32;
  const std::uint32_t width = std::min(32U, layout.head_dim - block * 32);
  return layout.values_per_half() + head + std::size_t{block} * 32 * layout.tokens +
         std::size_t{token} * width + dim % 32;
}

}  // namespace mzcache::test
