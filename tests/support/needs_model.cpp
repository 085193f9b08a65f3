// Linked into test programs that need the real model.
#include "support/model_path.h"
#include "support/needs_file.h"

namespace {

const bool kModelIsThere =
    mzcache::test::skip_without(mzcache::test::model_path(), "tools/get-model.sh");

}  // namespace
