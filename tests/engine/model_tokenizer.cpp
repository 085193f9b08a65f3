// The real model's tokenizer and chat template.
#include <string>

#include "engine/chat_template.h"
#include "engine/gguf.h"
#include "engine/tokenizer.h"
#include "support/catch.h"
#include "support/model_path.h"
#include "tokenizer_fixture.h"
#include "tokenizer_vectors.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

const GgufFile& model_file() {
  static const GgufFile kFile = value_or_throw(GgufFile::open(test::model_path()));
  return kFile;
}

std::shared_ptr<const Tokenizer> load() {
  auto tokenizer = Tokenizer::load(model_file());
  if (!tokenizer) FAIL(tokenizer.error().message());
  return *tokenizer;
}

std::string golden(const std::string& name) {
  return std::string(MZCACHE_SOURCE_DIR) + "/tests/golden/tokenizers/" + name;
}

constexpr std::string_view kUserOpen = "<|im_start|>user\n";

// What the user wrote in a prompt of one turn.
std::string user_text(const std::string& prompt) {
  const std::size_t begin = prompt.find(kUserOpen) + kUserOpen.size();
  return prompt.substr(begin, prompt.find("<|im_end|>", begin) - begin);
}

}  // namespace

TEST_CASE("the real model's vocabulary gives the expected ids") {
  const auto tokenizer = load();
  test::check_vectors(*tokenizer, golden("smollm2.json"));
  CHECK(tokenizer->size() == 49152);
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  CHECK(tokenizer->special("<|im_end|>") == 2);
  CHECK(tokenizer->special("<|im_end") == -1);
  CHECK(tokenizer->ends_generation(2));
  CHECK(tokenizer->ends_generation(0));
  CHECK_FALSE(tokenizer->ends_generation(1));
  CHECK(tokenizer->encode("", {}).empty());  // add_bos_token is false
  CHECK(tokenizer->piece(2, false).empty());
  CHECK(tokenizer->piece(2, true) == "<|im_end|>");
}

TEST_CASE("random texts come back from the real vocabulary, less the bytes it has no token for") {
  const auto tokenizer = load();
  std::string missing;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    if (tokenizer->encode(text, {}).empty()) missing += text;
  }
  CHECK(missing.size() == 21);
  const std::uint64_t seed = 5;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 100000; ++i) {
    std::string text = i % 2 == 0 ? test::random_utf8(random) : test::random_bytes(random);
    const auto tokens = tokenizer->encode(text, {.parse_special = false, .add_bos = false});
    std::erase_if(text, [&](char byte) { return missing.find(byte) != std::string::npos; });
    if (test::text_of(*tokenizer, tokens) != text)
      REQUIRE(test::text_of(*tokenizer, tokens) == text);
  }
}

TEST_CASE("the real model's chat template gives the expected prompts") {
  const auto tokenizer = load();
  const auto text = model_file().text("tokenizer.chat_template");
  REQUIRE(text.ok());
  const auto chat = choose_chat_template(*tokenizer, {text->value()});
  REQUIRE(chat.ok());
  CHECK((*chat)->name() == "chatml");
  const auto cases = test::read_json(golden("smollm2-chat.json"));
  REQUIRE(cases.size() == 3);
  for (const auto& one : cases) {
    const auto prompt = one["text"].get<std::string>();
    const auto expected = one["tokens"].get<std::vector<Token>>();
    INFO(prompt);
    CHECK((*chat)->user_turn(*tokenizer, {user_text(prompt), "", true, false}) == expected);
    CHECK(tokenizer->encode(prompt, {}) == expected);
  }
}

TEST_CASE("later turns of the real model's chat template are what one long prompt would be") {
  const auto tokenizer = load();
  const auto text = model_file().text("tokenizer.chat_template");
  const auto chat = choose_chat_template(*tokenizer, {text->value()});
  REQUIRE(chat.ok());
  auto tokens = (*chat)->user_turn(*tokenizer, {"Hi", "Be brief.", true, false});
  const auto answer = tokenizer->encode("Hello.", {});
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  auto closed = tokens;
  closed.push_back(tokenizer->special("<|im_end|>"));
  const auto after_closed = (*chat)->user_turn(*tokenizer, {"\n Bye", "", false, true});
  const auto after_open = (*chat)->user_turn(*tokenizer, {"\n Bye", "", false, false});
  closed.insert(closed.end(), after_closed.begin(), after_closed.end());
  tokens.insert(tokens.end(), after_open.begin(), after_open.end());
  const auto whole = tokenizer->encode(
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
      "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\n\n Bye<|im_end|>\n"
      "<|im_start|>assistant\n",
      {});
  CHECK(closed == whole);
  CHECK(tokens == whole);
}
