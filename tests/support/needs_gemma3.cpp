// Linked into test programs that need Gemma 3.
#include "support/model_path.h"
#include "support/needs_file.h"

namespace {

const bool kModelIsThere =
    mzcache::test::skip_without(mzcache::test::gemma3_path(), "tools/get-model.sh gemma3-270m");

}  // namespace
