// Slow, obvious twins of the kernels: scalar loops in double precision, written from the formats'
// and operations' definitions, sharing nothing with kernels/*.cl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "actors/model_description.h"

namespace mzcache::test {

using Random = std::mt19937_64;

[[nodiscard]] float half_to_float(std::uint16_t bits);
[[nodiscard]] std::uint16_t float_to_half(float value);  // to nearest even

// Every supported tensor type.
[[nodiscard]] const std::vector<actors::TensorType>& all_tensor_types();
// A row's bytes; rows × columns of random blocks with scales that keep values within about ±1.
[[nodiscard]] std::uint64_t row_bytes(actors::TensorType type, std::uint32_t columns);
[[nodiscard]] std::vector<std::byte> random_blocks(actors::TensorType type, std::uint32_t rows,
                                                   std::uint32_t columns, Random& random);
[[nodiscard]] std::vector<float> random_floats(std::size_t count, float scale, Random& random);
// Value `index` of a row.
[[nodiscard]] float dequantised(actors::TensorType type, const std::byte* row, std::uint32_t index);
[[nodiscard]] std::vector<float> dequantised_row(actors::TensorType type, const std::byte* row,
                                                 std::uint32_t columns);

// y[rows] = W[rows][columns] · x, weights already dequantised.
[[nodiscard]] std::vector<double> reference_matmul(std::span<const float> weights,
                                                   std::span<const double> x, std::uint32_t rows);
[[nodiscard]] std::vector<double> reference_norm(std::span<const double> x,
                                                 std::span<const float> weight, double epsilon);
// Rotates one head at `position`.
[[nodiscard]] std::vector<double> reference_rope(const actors::RopeDescription& rope,
                                                 std::span<const double> head,
                                                 std::uint32_t position);
[[nodiscard]] double reference_silu(double x);
[[nodiscard]] double reference_gelu(double x);  // tanh form

struct ReferenceAttention {
  double scale = 1;
  double softcap = 0;
  std::uint32_t window = 0;
};
// One query head at `position` over keys and values [token][dim] of its KV head.
[[nodiscard]] std::vector<double> reference_attention(
    const ReferenceAttention& how, std::span<const double> query,
    const std::vector<std::vector<double>>& keys, const std::vector<std::vector<double>>& values,
    std::uint32_t position);

// Index of a value in a chunk, in FP16 values from its start.
[[nodiscard]] std::size_t chunk_index(const actors::ChunkLayout& layout, bool value,
                                      std::uint32_t kv_head, std::uint32_t token,
                                      std::uint32_t dim);

}  // namespace mzcache::test
