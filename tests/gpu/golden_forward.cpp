// Whole forward passes against logits of an independent implementation (tests/golden/README.md).
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

constexpr double kRmsMax = 0.02;

void check_model(const std::string& name, std::uint32_t batch, const std::string& memory = "") {
  const Prompt input = prompt();
  const auto wanted = expected(name);
  Forward forward(open_model_file(models() + name + ".gguf"), memory);
  const auto found = forward.logits(input.tokens, batch, input.positions);
  REQUIRE(found.size() == input.positions.size());
  const std::size_t vocabulary = forward.description().vocabulary;
  REQUIRE(wanted.size() == found.size() * vocabulary);
  for (std::size_t row = 0; row < found.size(); ++row) {
    const auto want = std::span(wanted).subspan(row * vocabulary, vocabulary);
    INFO(name << " batch " << batch << " position " << input.positions[row]);
    CHECK(rms_difference(found[row], want) <= kRmsMax);
  }
}

}  // namespace

TEST_CASE("golden models agree at every batch size") {
  const auto name =
      GENERATE(as<std::string>{}, "llama-gqa", "llama-mha-untied", "llama3-rope-scaled",
               "type-bf16", "type-f16", "type-q4_0", "type-q4_1", "type-q4_k", "type-q5_0",
               "type-q5_1", "type-q5_k", "type-q6_k", "type-q8_0");
  const auto batch = GENERATE(1U, 7U, 256U, 512U);
  check_model(name, batch);
}
