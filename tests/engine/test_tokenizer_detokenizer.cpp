// Text comes out of tokens whole characters at a time.
#include <string>

#include "engine/tokenizer.h"
#include "engine/tokenizer_utf8.h"
#include "tokenizer_fixture.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

constexpr std::string_view kReplacement = "\ufffd";

// Each longest start of a character that cannot go on becomes one U+FFFD.
std::string repaired(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    all += step.state == Utf8State::kWhole ? text.substr(0, step.bytes) : kReplacement;
    text.remove_prefix(step.bytes);
  }
  return all;
}

}  // namespace

TEST_CASE("a character comes out when it is whole") {
  test::SmallVocabulary bytes;
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes.add(bpe_spell(static_cast<unsigned char>(byte)), TokenKind::kNormal);
  }
  const Token control = bytes.add("<|im_end|>", TokenKind::kControl);
  IncrementalDetokenizer detokenizer(bytes.make("gpt-2"));
  CHECK(detokenizer.push('a') == "a");
  CHECK(detokenizer.push(0xF0).empty());
  CHECK(detokenizer.push(0x9F).empty());
  CHECK(detokenizer.push(control).empty());
  CHECK(detokenizer.push(0x98).empty());
  CHECK(detokenizer.push(0x80) == "\U0001F600");
  CHECK(detokenizer.finish().empty());
  CHECK(detokenizer.push(0xFF) == kReplacement);
  CHECK(detokenizer.push(0xE2).empty());
  CHECK(detokenizer.push('b') == std::string(kReplacement) + "b");
  CHECK(detokenizer.push(0xE2).empty());
  CHECK(detokenizer.push(0x82).empty());
  CHECK(detokenizer.finish() == kReplacement);
  CHECK(detokenizer.finish().empty());
}

TEST_CASE("streamed text is the whole text, never half a character") {
  test::SmallVocabulary small = test::small_vocabulary();
  const auto tokenizer = small.make("qwen2");
  const std::uint64_t seed = 51;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = i % 2 == 0 ? test::random_utf8(random) : test::random_bytes(random);
    IncrementalDetokenizer detokenizer(tokenizer);
    std::string streamed;
    for (const Token token : tokenizer->encode(text, {.parse_special = false, .add_bos = false})) {
      const std::string piece = detokenizer.push(token);
      REQUIRE(utf8_valid_prefix(piece) == piece.size());
      streamed += piece;
    }
    streamed += detokenizer.finish();
    if (streamed != repaired(text)) {
      CAPTURE(i, text);
      REQUIRE(streamed == repaired(text));
    }
  }
}
