#include "support/catch.h"
#include "support/model_path.h"
#include "system/real_model.h"
#include "system/system_harness.h"

using namespace mzcache::test;

TEST_CASE("SmolLM2 says what the reference says") {
  if (more_golden().empty()) {
    WARN("MZCACHE_GOLDEN is not set: the reference is not there");
    return;
  }
  CHECK(check_real_model(model_path(), "smollm2") >= 3144);
}
