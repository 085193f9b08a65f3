#include "gpu/test_kernels_support.h"

using namespace mzcache;
using namespace mzcache::test;
using actors::TensorType;

namespace {

gpu::DeviceTensor norm_tensor(const KernelBench::Unit& unit, std::uint32_t columns) {
  gpu::DeviceTensor tensor;
  tensor.unit = unit.address;
  tensor.view = {TensorType::kF32, 0, 1, columns, columns * sizeof(float)};
  return tensor;
}

std::unique_ptr<KernelBench::Unit> floats_unit(KernelBench& bench,
                                               const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return bench.unit({bytes.begin(), bytes.end()});
}

}  // namespace

TEST_CASE("norms agree for every width, mapped rows and sums") {
  const std::uint64_t seed = 41;
  INFO("seed " << seed);
  Random random(seed);
  KernelBench bench;
  constexpr std::uint32_t kRows = 5;
  for (const std::uint32_t columns : {16U, 36U, 64U, 80U, 576U, 2048U}) {
    const auto weight = random_floats(columns, 2, random);
    const auto unit = floats_unit(bench, weight);
    const auto x = random_floats(std::size_t{kRows} * columns, 3, random);
    const auto before = random_floats(x.size(), 1, random);
    const auto in = bench.buffer(x);
    for (const bool mapped : {false, true}) {
      const std::vector<std::uint32_t> map = {4, 0, 2};
      const auto row_map = bench.buffer(map);
      const std::uint32_t rows = mapped ? 3 : kRows;
      for (const bool add : {false, true}) {
        INFO(columns << " columns, mapped " << mapped << ", add " << add);
        const auto out = bench.buffer(before);
        bench.calls->rms_norm(in, out, norm_tensor(*unit, columns), rows, 1e-5F,
                              mapped ? &row_map : nullptr, add);
        std::vector<double> wanted;
        for (std::uint32_t r = 0; r < rows; ++r) {
          const std::size_t from = std::size_t{mapped ? map[r] : r} * columns;
          const auto y = reference_norm(doubles(std::span(x).subspan(from, columns)), weight, 1e-5);
          for (std::uint32_t i = 0; i < columns; ++i) {
            wanted.push_back(y[i] + (add ? double{before[std::size_t{r} * columns + i]} : 0));
          }
        }
        CHECK(largest_difference(bench.read(out, wanted.size()), wanted) < 1e-5);
      }
    }
  }
}

TEST_CASE("gates agree, extreme values included") {
  const std::uint64_t seed = 42;
  INFO("seed " << seed);
  Random random(seed);
  KernelBench bench;
  auto gate = random_floats(2064, 10, random);
  const auto up = random_floats(gate.size(), 2, random);
  const std::vector<float> extreme = {0, -0.0F, 1e-20F, 30, -30, 88, -88, 500, -500, 1e4F, -1e4F};
  std::copy(extreme.begin(), extreme.end(), gate.begin());
  const auto count = static_cast<std::uint32_t>(gate.size());
  for (const auto kind : {gpu::GateKind::kSilu, gpu::GateKind::kGelu}) {
    const auto in = bench.buffer(gate);
    const auto factor = bench.buffer(up);
    bench.calls->gate(in, factor, count, kind);
    REQUIRE(bench.device().queue().finish() == CL_SUCCESS);
    const auto found = bench.read(in, gate.size());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double g = double{gate[i]};
      const double wanted =
          (kind == gpu::GateKind::kSilu ? reference_silu(g) : reference_gelu(g)) * double{up[i]};
      INFO("gate " << gate[i] << ", up " << up[i]);
      REQUIRE(std::fabs(double{found[i]} - wanted) <= 3e-6 * std::max(1.0, std::fabs(wanted)));
    }
  }
}

TEST_CASE("soft caps agree") {
  Random random(43);
  KernelBench bench;
  const auto x = random_floats(1037, 100, random);
  const auto in = bench.buffer(x);
  bench.calls->softcap(in, static_cast<std::uint32_t>(x.size()), 30);
  std::vector<double> wanted;
  for (const float value : x) wanted.push_back(30 * std::tanh(double{value} / 30));
  CHECK(largest_difference(bench.read(in, x.size()), wanted) < 2e-5);
}

TEST_CASE("embeddings agree for every type") {
  const std::uint64_t seed = 44;
  INFO("seed " << seed);
  Random random(seed);
  KernelBench bench;
  constexpr std::uint32_t kColumns = 512;
  constexpr std::uint32_t kTokens = 3;
  for (const TensorType type : all_tensor_types()) {
    const auto rows = random_blocks(type, kTokens, kColumns, random);
    actors::EmbeddingDescription embedding;
    embedding.type = type;
    embedding.row_bytes = row_bytes(type, kColumns);
    embedding.scale = 3.5F;
    const auto out = bench.buffer(std::size_t{kTokens} * kColumns);
    const auto in = bench.buffer(rows);
    bench.calls->embed(in, embedding, kColumns, kTokens, out);
    std::vector<double> wanted;
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      for (const float v : dequantised_row(type, rows.data() + t * embedding.row_bytes, kColumns)) {
        wanted.push_back(double{v} * 3.5);
      }
    }
    INFO(actors::tensor_type_traits(type).name);
    CHECK(largest_difference(bench.read(out, wanted.size()), wanted) < 1e-5);
  }
}

TEST_CASE("a set stop flag makes every kernel return without effect") {
  Random random(45);
  for (const std::string memory : {"", "buffers"}) {
    KernelBench bench(memory);
    const auto x = random_floats(64, 1, random);
    const auto unit = floats_unit(bench, x);
    const auto in = bench.buffer(x);
    const auto out = bench.buffer(x);
    const std::vector<float> angles(64, 1);
    const auto angle = bench.buffer(angles);
    const auto table = bench.buffer(std::vector<std::uint64_t>{0});
    gpu::AttentionShape shape;
    shape.heads = shape.kv_heads = 1;
    shape.head_dim = 32;
    shape.tokens = 1;
    bench.stop->set();
    // The table leads nowhere: a kernel that went on would crash.
    bench.calls->rope_store(out, in, in, angle, {unit->address, &table, 0}, shape, 32, false);
    bench.calls->attention(in, out, out, out, {unit->address, &table, 0}, shape);
    bench.calls->rms_norm(in, out, norm_tensor(*unit, 64), 1, 1e-5F, nullptr, false);
    for (const std::uint32_t tokens : {1U, 2U, 20U}) {
      bench.calls->matmul({unit->address, {TensorType::kF32, 0, 2, 32, 128}, false, 0}, in, out,
                          out, tokens, false);
    }
    bench.calls->gate(out, in, 64, gpu::GateKind::kSilu);
    bench.calls->softcap(out, 64, 0.1F);
    actors::EmbeddingDescription embedding;
    embedding.row_bytes = 128;
    bench.calls->embed(in, embedding, 32, 1, out);
    CHECK(bench.read(out, x.size()) == x);
    bench.stop->clear();
    bench.calls->softcap(out, 64, 0.1F);
    CHECK(bench.read(out, x.size()) != x);
  }
}
