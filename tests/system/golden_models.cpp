// The golden models of MZCACHE_GOLDEN.
#include "support/catch.h"
#include "system/golden_check.h"
#include "system/system_harness.h"

using namespace mzcache::test;

TEST_CASE("golden models agree at every batch size and after evictions, through the whole system") {
  const auto name = GENERATE(as<std::string>{}, "exaone4", "gemma2", "gemma3", "llama-gqa",
                             "llama-mha-untied", "llama3-rope-scaled", "qwen3", "qwen3-untied",
                             "type-bf16", "type-f16", "type-q4_0", "type-q4_1", "type-q4_k",
                             "type-q5_0", "type-q5_1", "type-q5_k", "type-q6_k", "type-q8_0");
  REQUIRE_FALSE(more_golden().empty());
  check_golden_model(more_golden(), name);
  check_golden_evictions(more_golden(), name);
}
