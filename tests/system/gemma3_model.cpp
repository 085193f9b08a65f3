#include "support/catch.h"
#include "support/model_path.h"
#include "system/real_model.h"

using namespace mzcache::test;

TEST_CASE("Gemma 3 says what the reference says") {
  // Longer than its window of 512 tokens.
  CHECK(check_real_model(gemma3_path(), "gemma3") > 512);
}
