#include "gpu/test_kernels_support.h"

using namespace mzcache;
using namespace mzcache::test;
using actors::TensorType;

namespace {

struct Case {
  TensorType type = TensorType::kF32;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t tokens = 0;
  bool add = false;
  bool bias = false;
};

void check_matmul(KernelBench& bench, const Case& c, Random& random) {
  INFO(actors::tensor_type_traits(c.type).name << " " << c.rows << "×" << c.columns << ", "
                                               << c.tokens << " tokens");
  // The tensor lies behind 64 other bytes of its unit, its bias behind it.
  auto bytes = random_blocks(c.type, c.rows, c.columns, random);
  const auto bias = random_floats(c.rows, 1, random);
  gpu::DeviceTensor weight;
  weight.view = {c.type, 64, c.rows, c.columns, row_bytes(c.type, c.columns)};
  std::vector<float> weights;
  for (std::uint32_t r = 0; r < c.rows; ++r) {
    const auto row = dequantised_row(c.type, bytes.data() + r * weight.view.row_bytes, c.columns);
    weights.insert(weights.end(), row.begin(), row.end());
  }
  bytes.insert(bytes.begin(), 64, std::byte{0xFF});
  bytes.resize((bytes.size() + 3) / 4 * 4);
  weight.has_bias = c.bias;
  weight.bias_offset = bytes.size();
  const auto bias_bytes = std::as_bytes(std::span(bias));
  bytes.insert(bytes.end(), bias_bytes.begin(), bias_bytes.end());
  const auto unit = bench.unit(std::move(bytes));
  weight.unit = unit->address;

  const auto x = random_floats(std::size_t{c.tokens} * c.columns, 1, random);
  const auto before = random_floats(std::size_t{c.tokens} * c.rows, 1, random);
  const auto in = bench.buffer(x);
  const auto out = bench.buffer(before);
  if (c.tokens < gpu::kPackedTokensMin) {
    bench.calls->matmul(weight, in, out, c.tokens, c.add);
  } else {
    const auto packed = bench.buffer(std::size_t{(c.tokens + 31) / 32 * 32} * c.columns);
    bench.calls->pack(in, packed, c.columns, c.tokens);
    bench.calls->matmul_packed(weight, packed, out, c.tokens, c.add);
    REQUIRE(bench.device().queue().finish() == CL_SUCCESS);
  }
  const auto found = bench.read(out, before.size());

  std::vector<double> wanted;
  for (std::uint32_t t = 0; t < c.tokens; ++t) {
    const auto row = doubles(std::span(x).subspan(std::size_t{t} * c.columns, c.columns));
    const auto y = reference_matmul(weights, row, c.rows);
    for (std::uint32_t r = 0; r < c.rows; ++r) {
      wanted.push_back(y[r] + (c.add ? double{before[std::size_t{t} * c.rows + r]} : 0) +
                       (c.bias ? double{bias[r]} : 0));
    }
  }
  CHECK(largest_difference(found, wanted) < 1e-6 * c.columns);
}

}  // namespace

TEST_CASE("products agree with their twins for every type and slice size") {
  const std::uint64_t seed = 20261;
  INFO("seed " << seed);
  Random random(seed);
  KernelBench bench;
  for (const TensorType type : all_tensor_types()) {
    for (const std::uint32_t tokens : {1U, 2U, 7U, 8U, 9U, 16U, 17U, 33U}) {
      check_matmul(bench, {type, 37, 512, tokens}, random);
    }
    check_matmul(bench, {type, 70, 768, 1, true, true}, random);
    check_matmul(bench, {type, 70, 768, 5, true, true}, random);
    check_matmul(bench, {type, 70, 768, 256, true, true}, random);
  }
}

TEST_CASE("products agree for odd shapes") {
  const std::uint64_t seed = 20262;
  INFO("seed " << seed);
  Random random(seed);
  KernelBench bench;
  for (const std::uint32_t tokens : {1U, 8U, 129U, 512U}) {
    check_matmul(bench, {TensorType::kQ8_0, 1, 32, tokens}, random);
    check_matmul(bench, {TensorType::kQ4_1, 33, 96, tokens}, random);
    check_matmul(bench, {TensorType::kF16, 131, 288, tokens, true}, random);
  }
  check_matmul(bench, {TensorType::kQ8_0, 4100, 64, 1}, random);
  check_matmul(bench, {TensorType::kQ8_0, 4100, 64, 3}, random);
}

TEST_CASE("products agree when units are buffers") {
  const std::uint64_t seed = 20263;
  INFO("seed " << seed);
  Random random(seed);
  KernelBench bench("buffers");
  for (const TensorType type : all_tensor_types()) {
    for (const std::uint32_t tokens : {1U, 8U, 33U}) {
      check_matmul(bench, {type, 37, 256, tokens, true, true}, random);
    }
  }
}
