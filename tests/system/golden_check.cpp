#include "system/golden_check.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "support/catch.h"
#include "system/system_harness.h"

namespace mzcache::test {
namespace {

constexpr double kRmsMax = 0.02;

struct Prompt {
  std::vector<Token> tokens;
  std::vector<std::uint32_t> positions;
};

Prompt read_prompt(const std::string& models) {
  std::ifstream file(models + "prompt.json");
  const auto json = nlohmann::json::parse(file);
  return {json.at("tokens").get<std::vector<Token>>(),
          json.at("positions").get<std::vector<std::uint32_t>>()};
}

}  // namespace

void check_golden_model(const std::string& directory, const std::string& name) {
  const std::string models = directory + "/models/";
  const Prompt prompt = read_prompt(models);
  const std::vector<float> expected = read_floats(models + name + ".logits.f32");
  System system(models + name + ".gguf", {"device.activations=float"});
  const std::size_t width = system.model().info().vocabulary;
  REQUIRE(expected.size() == prompt.positions.size() * width);
  for (const std::uint32_t batch : {1U, 7U, 256U, 512U}) {
    const std::vector<float> found = system.logits(prompt.tokens, prompt.positions, batch);
    REQUIRE(found.size() == expected.size());
    for (std::size_t row = 0; row < prompt.positions.size(); ++row) {
      INFO(name << ", batch " << batch << ", position " << prompt.positions[row]);
      CHECK(rms_difference(std::span(found).subspan(row * width, width),
                           std::span(expected).subspan(row * width, width)) <= kRmsMax);
    }
    system.reset();
  }
}

}  // namespace mzcache::test
