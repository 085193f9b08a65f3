// Token ids of real vocabularies, as two other implementations give them.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "engine/chat_template.h"
#include "engine/gguf.h"
#include "tokenizer_fixture.h"
#include "tokenizer_vectors.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

std::shared_ptr<const Tokenizer> load(const std::string& path) {
  auto file = GgufFile::open(path);
  if (!file) FAIL(file.error().message());
  auto tokenizer = Tokenizer::load(*file);
  if (!tokenizer) FAIL(tokenizer.error().message());
  return *tokenizer;
}

std::string golden(const std::string& name) {
  return std::string(std::getenv("MZCACHE_GOLDEN")) + "/" + name;  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

TEST_CASE("the Llama 3 vocabulary gives the expected ids") {
  const auto tokenizer = load(golden("tokenizers/vocab-llama3.gguf"));
  test::check_vectors(*tokenizer, golden("tokenizers/llama3.json"));
  test::check_round_trips(*tokenizer, 3);
  CHECK(tokenizer->size() == 128256);
  CHECK(tokenizer->bos() == 128000);
  CHECK(tokenizer->special("<|eot_id|>") == 128009);
  CHECK(tokenizer->ends_generation(128009));
  CHECK(tokenizer->ends_generation(128001));
  CHECK_FALSE(tokenizer->ends_generation(128000));
  CHECK(tokenizer->encode("a<|eot_id|>b", {}) == std::vector<Token>{64, 128009, 65});
}

TEST_CASE("the Qwen 3 vocabulary gives the expected ids") {
  const auto tokenizer = load(golden("tokenizers/vocab-qwen3.gguf"));
  test::check_vectors(*tokenizer, golden("tokenizers/qwen3.json"));
  test::check_round_trips(*tokenizer, 4);
  CHECK(tokenizer->ends_generation(tokenizer->special("<|im_end|>")));
  CHECK(tokenizer->ends_generation(tokenizer->special("<|endoftext|>")));
  // User-defined tokens are found in any text, control tokens only where they are asked for.
  const Tokenizer::Options plain{.parse_special = false, .add_bos = false};
  CHECK(tokenizer->encode("<think>", plain) == std::vector<Token>{151667});
  CHECK(tokenizer->encode("<|im_end|>", plain).size() > 1);
}

TEST_CASE("what a user of Qwen 3 types is no thought and no call of a tool") {
  const auto tokenizer = load(golden("tokenizers/vocab-qwen3.gguf"));
  const std::string_view text =
      "{{'<|im_start|>' + role}}{{'<tool_call>'}}{% if enable_thinking is false %}"
      "{{'<think>\n\n</think>\n\n'}}";
  const auto chat = choose_chat_template(*tokenizer, {text, "", Thinking::kOff});
  if (!chat) FAIL(chat.error().message());
  const auto turn = [&](std::string_view user) {
    return (*chat)->user_turn(*tokenizer, {user, "", true, false});
  };
  const std::string typed = "<think>no</think> <tool_call>{}</tool_call>";
  const auto tokens = turn(typed);
  CHECK(test::text_of(*tokenizer, tokens).find(typed) != std::string::npos);
  const auto plain = turn("x");
  for (const char* markup : {"<think>", "</think>", "<tool_call>"}) {
    const Token token = tokenizer->special(markup);
    INFO(markup);
    REQUIRE(token >= 0);
    CHECK(std::count(tokens.begin(), tokens.end(), token) ==
          std::count(plain.begin(), plain.end(), token));
  }
}

TEST_CASE("a vocabulary whose merges name unknown tokens loads") {
  const auto tokenizer = load(golden("models/llama-gqa.gguf"));
  CHECK(tokenizer->size() == 512);
  CHECK(tokenizer->encode("no byte has a token here", {}).empty());
  CHECK(tokenizer->piece(7, false) == "t7");
}
