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

struct Golden {
  Prompt prompt;
  std::vector<float> expected;
  std::size_t width = 0;
};

void check_rows(const Golden& golden, const std::vector<float>& found) {
  const std::size_t width = golden.width;
  REQUIRE(found.size() == golden.expected.size());
  for (std::size_t row = 0; row < golden.prompt.positions.size(); ++row) {
    INFO("position " << golden.prompt.positions[row]);
    CHECK(rms_difference(std::span(found).subspan(row * width, width),
                         std::span(golden.expected).subspan(row * width, width)) <= kRmsMax);
  }
}

Golden read_golden(const std::string& models, const std::string& name, const System& system) {
  Golden golden{read_prompt(models), read_floats(models + name + ".logits.f32"),
                system.model().info().vocabulary};
  REQUIRE(golden.expected.size() == golden.prompt.positions.size() * golden.width);
  return golden;
}

// The prompt cut behind each of `cuts`, with an eviction of `percent` at each cut (0: none).
std::vector<float> logits_in_parts(System& system, const Prompt& prompt,
                                   const std::vector<std::uint32_t>& cuts, double percent) {
  std::vector<float> rows;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : cuts) {
    std::vector<std::uint32_t> positions;
    for (const std::uint32_t position : prompt.positions) {
      if (position >= begin && position < end) positions.push_back(position - begin);
    }
    const auto part = std::span(prompt.tokens).subspan(begin, end - begin);
    const auto values = system.logits(part, positions);
    rows.insert(rows.end(), values.begin(), values.end());
    if (percent > 0) CHECK(system.evict(percent).freed_bytes > 0);
    begin = end;
  }
  system.reset();
  return rows;
}

}  // namespace

void check_golden_evictions(const std::string& directory, const std::string& name) {
  INFO(name);
  const std::string models = directory + "/models/";
  System system(models + name + ".gguf", {"device.activations=float", "memory.codec=none"});
  const Golden golden = read_golden(models, name, system);
  const std::vector<std::uint32_t> cuts{97, 300, 511, 513, 599, 600};
  const auto wanted = logits_in_parts(system, golden.prompt, cuts, 0);
  check_rows(golden, wanted);
  for (const double percent : {100.0, 35.0}) {
    INFO("evicted: " << percent << " %");
    CHECK(same_bits(logits_in_parts(system, golden.prompt, cuts, percent), wanted));
  }
}

void check_golden_model(const std::string& directory, const std::string& name) {
  const std::string models = directory + "/models/";
  System system(models + name + ".gguf", {"device.activations=float"});
  const Golden golden = read_golden(models, name, system);
  for (const std::uint32_t batch : {1U, 7U, 256U, 512U}) {
    INFO(name << ", batch " << batch);
    check_rows(golden, system.logits(golden.prompt.tokens, golden.prompt.positions, batch));
    system.reset();
  }
}

}  // namespace mzcache::test
