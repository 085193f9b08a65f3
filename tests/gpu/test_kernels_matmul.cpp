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
  bool coarse = false;
};

struct Difference {
  double largest = 0;
  double relative = 0;  // root mean square, over that of the products
};

Difference matmul_difference(KernelBench& bench, const Case& c, Random& random) {
  // The tensor lies behind 64 other bytes of its unit, its bias behind it.
  auto bytes = random_blocks(c.type, c.rows, c.columns, random);
  const auto bias = random_floats(c.rows, 1, random);
  gpu::DeviceTensor weight;
  weight.coarse = c.coarse;
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
  const auto packed = bench.buffer(bench.calls->packed_bytes(c.columns, c.tokens) / 4 + 1);
  bench.calls->begin_slice(false);
  bench.calls->matmul(weight, in, packed, out, c.tokens, c.add);
  REQUIRE(bench.device().queue().finish() == CL_SUCCESS);
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
  Difference difference;
  difference.largest = largest_difference(found, wanted);
  double off = 0;
  double size = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    off += (found[i] - wanted[i]) * (found[i] - wanted[i]);
    size += wanted[i] * wanted[i];
  }
  difference.relative = std::sqrt(off / size);
  return difference;
}

std::string name_of(const Case& c) {
  return std::string(actors::tensor_type_traits(c.type).name) + " " + std::to_string(c.rows) + "×" +
         std::to_string(c.columns) + ", " + std::to_string(c.tokens) + " tokens";
}

void check_matmul(KernelBench& bench, const Case& c, Random& random) {
  INFO(name_of(c));
  CHECK(matmul_difference(bench, c, random).largest < 1e-6 * c.columns);
}

// The sets whose products are exact: portable, and the processors' with float activations.
std::vector<Setting> exact_settings() {
  std::vector<Setting> settings = {{"", "portable", false}};
  if (have_cpu_kernels()) {
    settings.push_back({"", "cpu", false});
    settings.push_back({"", "cpu", false, 8});
  }
  return settings;
}

}  // namespace

TEST_CASE("products agree with their twins for every type and slice size") {
  const std::uint64_t seed = 20261;
  INFO("seed " << seed);
  for (const Setting& setting : exact_settings()) {
    INFO("kernels " << setting.kernels);
    Random random(seed);
    KernelBench bench(setting);
    for (const TensorType type : all_tensor_types()) {
      for (const std::uint32_t tokens : {1U, 2U, 7U, 8U, 9U, 16U, 17U, 33U}) {
        check_matmul(bench, {type, 37, 512, tokens}, random);
      }
      check_matmul(bench, {type, 70, 768, 1, true, true}, random);
      check_matmul(bench, {type, 70, 768, 5, true, true}, random);
      check_matmul(bench, {type, 70, 768, 256, true, true}, random);
    }
  }
}

TEST_CASE("products agree for odd shapes") {
  const std::uint64_t seed = 20262;
  INFO("seed " << seed);
  for (const Setting& setting : exact_settings()) {
    INFO("kernels " << setting.kernels);
    Random random(seed);
    KernelBench bench(setting);
    for (const std::uint32_t tokens : {1U, 8U, 129U, 512U}) {
      check_matmul(bench, {TensorType::kQ8_0, 1, 32, tokens}, random);
      check_matmul(bench, {TensorType::kQ4_1, 33, 96, tokens}, random);
      check_matmul(bench, {TensorType::kF16, 131, 288, tokens, true}, random);
    }
    check_matmul(bench, {TensorType::kQ8_0, 4100, 64, 1}, random);
    check_matmul(bench, {TensorType::kQ8_0, 4100, 64, 3}, random);
  }
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

TEST_CASE("products of bytes are as far off as activations of 8 bits are, and no further") {
  if (!have_cpu_kernels()) return;  // no processor for them
  const std::uint64_t seed = 20264;
  INFO("seed " << seed);
  const auto width = GENERATE(0U, 8U);
  INFO("width " << width);
  Random random(seed);
  KernelBench bench(Setting("", "cpu", true, width));
  for (const TensorType type : all_tensor_types()) {
    for (const std::uint32_t tokens : {1U, 2U, 7U, 8U, 9U, 16U, 17U, 33U, 48U, 300U, 512U}) {
      const Case c{type, 38, 768, tokens, tokens % 2 == 0, tokens % 3 == 0, true};
      INFO(name_of(c));
      // Uniform values in ±1: a step of 1/127 of the block's largest, so 1/127/√12 of about √3.
      CHECK(matmul_difference(bench, c, random).relative < 0.008);
      Case fine = c;
      fine.coarse = false;
      CHECK(matmul_difference(bench, fine, random).relative < 4e-5);
    }
  }
  for (const std::uint32_t tokens : {1U, 8U, 129U, 512U}) {
    for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_1, TensorType::kQ5_0}) {
      const Case c{type, 130, 96, tokens, false, false, true};
      INFO(name_of(c));
      CHECK(matmul_difference(bench, c, random).relative < 0.008);
    }
  }
}
