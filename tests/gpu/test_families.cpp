// One tiny model of every family through the kernels. Small enough for an interpreter that watches
// every access: run under Oclgrind by ctest (a device of OpenCL 1.2 without shared memory).
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu/forward_harness.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

const std::string kModels = MZCACHE_SOURCE_DIR "/tests/golden/models/";

std::vector<float> read_floats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file),
                                std::istreambuf_iterator<char>{});
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace

TEST_CASE("oclgrind: a model of every family") {
  std::ifstream file(kModels + "prompt.json");
  const auto prompt = nlohmann::json::parse(file);
  const auto tokens = prompt.at("tokens").get<std::vector<std::uint32_t>>();
  const auto positions = prompt.at("positions").get<std::vector<std::uint32_t>>();
  for (const std::string name :
       {"llama-gqa", "qwen2", "qwen3", "smollm3", "exaone4", "gemma2", "gemma3"}) {
    Forward forward(open_model_file(kModels + name + ".gguf"), "", 1024, 64);
    const std::size_t width = forward.description().vocabulary;
    const std::vector<float> expected = read_floats(kModels + name + ".logits.f32");
    std::uint32_t first = 0;
    // By rows, by few tokens, by many.
    for (const std::uint32_t end : {1U, 8U, 32U}) {
      (void)forward.compute(forward.slice(tokens, first, end - first, {end - 1}));
      const auto row = std::find(positions.begin(), positions.end(), end - 1) - positions.begin();
      INFO(name << ", position " << end - 1);
      CHECK(rms_difference(
                forward.queue().logits(0),
                std::span(expected).subspan(static_cast<std::size_t>(row) * width, width)) <= 0.02);
      first = end;
    }
  }
}
