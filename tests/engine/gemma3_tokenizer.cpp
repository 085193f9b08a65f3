// Token ids of Gemma 3's vocabulary, which comes with the model.
#include <cstdlib>
#include <string>

#include "engine/gguf.h"
#include "support/model_path.h"
#include "tokenizer_fixture.h"
#include "tokenizer_vectors.h"

using namespace mzcache;
using namespace mzcache::engine;

TEST_CASE("the Gemma 3 vocabulary gives the expected ids") {
  auto file = GgufFile::open(test::gemma3_path());
  if (!file) FAIL(file.error().message());
  const auto loaded = Tokenizer::load(*file);
  if (!loaded) FAIL(loaded.error().message());
  const Tokenizer* const tokenizer = loaded->get();
  const std::string golden = std::getenv("MZCACHE_GOLDEN");  // NOLINT(concurrency-mt-unsafe)
  test::check_vectors(*tokenizer, golden + "/tokenizers/gemma3.json");
  test::check_round_trips(*tokenizer, 6, "\u2581");
  CHECK(tokenizer->size() == 262144);
  CHECK(tokenizer->bos() == 2);
  CHECK(tokenizer->encode("", {}) == std::vector<Token>{2});
  CHECK(tokenizer->special("<end_of_turn>") == 106);
  CHECK(tokenizer->ends_generation(106));
  CHECK(tokenizer->ends_generation(1));
}
