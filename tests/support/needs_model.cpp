// Linked into test programs that need the real model: without it they print SKIPPED and return 77,
// which ctest shows as skipped. Done before main because the test framework owns main.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "support/model_path.h"

namespace {

const bool kModelIsThere = [] {
  if (std::ifstream(mzcache::test::model_path()).good()) return true;
  std::printf("SKIPPED: no model at %s (tools/get-model.sh fetches it)\n",
              mzcache::test::model_path().c_str());
  std::fflush(stdout);
  std::_Exit(77);
}();

}  // namespace
