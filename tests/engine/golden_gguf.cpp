// The parser and the description on the golden models and vocabularies.
#include <cstdlib>
#include <filesystem>

#include "engine/gguf.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

std::filesystem::path golden() {
  const char* path = std::getenv("MZCACHE_GOLDEN");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(path != nullptr);
  return path;
}

}  // namespace

TEST_CASE("golden models are described, whatever their family") {
  int described = 0;
  for (const auto& entry : std::filesystem::directory_iterator(golden() / "models")) {
    if (entry.path().extension() != ".gguf") continue;
    INFO(entry.path().string());
    const auto file = GgufFile::open(entry.path().string());
    if (!file) FAIL(file.error().message());
    const auto model = describe_model(*file);
    if (!model) FAIL(model.error().message());
    CHECK(model->vocabulary == 512);
    CHECK(model->layer.size() == model->layers);
    CHECK(model->head.tied == (file->tensor("output.weight") == nullptr));
    CHECK(model->rope.factors.empty() == (file->tensor("rope_freqs.weight") == nullptr));
    ++described;
  }
  CHECK(described >= 18);
}

TEST_CASE("golden vocabularies parse and have no weights") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(golden() / "tokenizers")) {
    if (entry.path().extension() != ".gguf") continue;
    const auto file = GgufFile::open(entry.path().string());
    if (!file) FAIL(file.error().message());
    CHECK((*file->texts("tokenizer.ggml.tokens"))->size() > 100000);
    CHECK_FALSE(describe_model(*file).ok());
    ++count;
  }
  CHECK(count >= 2);
}
