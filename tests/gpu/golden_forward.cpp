// Whole forward passes against logits of an independent implementation (tests/golden/README.md).
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "gpu/forward_harness.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

std::string models() {
  const char* directory = std::getenv("MZCACHE_GOLDEN");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(directory != nullptr);
  return std::string(directory) + "/models/";
}

struct Prompt {
  std::vector<std::uint32_t> tokens;
  std::vector<std::uint32_t> positions;
};

Prompt prompt() {
  std::ifstream file(models() + "prompt.json");
  const auto json = nlohmann::json::parse(file);
  return {json.at("tokens").get<std::vector<std::uint32_t>>(),
          json.at("positions").get<std::vector<std::uint32_t>>()};
}

std::vector<float> expected(const std::string& model) {
  std::ifstream file(models() + model + ".logits.f32", std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file),
                                std::istreambuf_iterator<char>{});
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// Float activations must come as close as the arithmetic does; activations of 8 bits cost a little,
// and must not change what a model is sure of.
constexpr double kRmsMax = 0.02;
constexpr double kInt8RmsMax = 0.1;
constexpr float kSureGap = 0.5F;

struct Best {
  std::size_t index = 0;
  float gap = 0;  // to the second
};

Best best_of(std::span<const float> row) {
  Best best{0, 0};
  float second = -INFINITY;
  for (std::size_t i = 1; i < row.size(); ++i) {
    if (row[i] > row[best.index]) {
      second = row[best.index];
      best.index = i;
    } else if (row[i] > second) {
      second = row[i];
    }
  }
  best.gap = row[best.index] - second;
  return best;
}

void check_model(const std::string& name, std::uint32_t batch, const Setting& setting) {
  const Prompt input = prompt();
  const auto wanted = expected(name);
  Forward forward(open_model_file(models() + name + ".gguf"), setting);
  const auto found = forward.logits(input.tokens, batch, input.positions);
  REQUIRE(found.size() == input.positions.size());
  const std::size_t vocabulary = forward.description().vocabulary;
  REQUIRE(wanted.size() == found.size() * vocabulary);
  for (std::size_t row = 0; row < found.size(); ++row) {
    const auto want = std::span(wanted).subspan(row * vocabulary, vocabulary);
    INFO(name << " batch " << batch << " position " << input.positions[row] << ", "
              << setting.kernels << (setting.int8 ? ", int8" : ", float") << ", width "
              << setting.width);
    CHECK(rms_difference(found[row], want) <= (setting.int8 ? kInt8RmsMax : kRmsMax));
    if (const Best best = best_of(want); best.gap >= kSureGap) {
      CHECK(best_of(found[row]).index == best.index);
    }
  }
}

std::vector<Setting> settings() {
  std::vector<Setting> all = {{"", "portable", false}};
  if (have_cpu_kernels()) {
    all.push_back({"", "cpu", false});
    all.push_back({"", "cpu", true});
    // As on a processor with AVX2 and no more.
    all.push_back({"", "cpu", false, 8});
    all.push_back({"", "cpu", true, 8});
  }
  return all;
}

}  // namespace

TEST_CASE("golden models agree at every batch size, with every set of kernels") {
  const auto name = GENERATE(as<std::string>{}, "exaone4", "gemma2", "gemma3", "llama-gqa",
                             "llama-mha-untied", "llama3-rope-scaled", "qwen3", "qwen3-untied",
                             "type-bf16", "type-f16", "type-q4_0", "type-q4_1", "type-q4_k",
                             "type-q5_0", "type-q5_1", "type-q5_k", "type-q6_k", "type-q8_0");
  const auto batch = GENERATE(1U, 7U, 12U, 256U, 512U);
  for (const Setting& setting : settings()) {
    // Narrower vectors differ in the products alone: few tokens and many are enough.
    if (setting.width == 0 || batch == 7 || batch == 256) check_model(name, batch, setting);
  }
}
