// Answers are right through the whole system: loading, embedding rows, slices, KV chunks, the head.
// Every model of tests/golden, found by its logits.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.h"
#include "system/golden_check.h"
#include "system/system_harness.h"

using namespace mzcache::test;

TEST_CASE("the committed golden models agree at every batch size and after evictions") {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(committed_golden() + "/models")) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  REQUIRE(names.size() >= 26);
  for (const std::string& name : names) {
    check_golden_model(committed_golden(), name);
    check_golden_evictions(committed_golden(), name);
  }
}
