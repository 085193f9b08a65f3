// SentencePiece's merging by scores: what the format promises, and damaged vocabularies.
#include <limits>
#include <string>
#include <vector>

#include "tokenizer_fixture.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

struct ScoredVocabulary {
  std::vector<std::string> tokens;
  Vocabulary vocabulary;

  ScoredVocabulary() {
    add("<unk>", TokenKind::kUnknown, 0);
    add("<s>", TokenKind::kControl, 0);
    add("</s>", TokenKind::kControl, 0);
  }
  Token add(std::string text, TokenKind kind, float score) {
    tokens.push_back(std::move(text));
    vocabulary.kinds.push_back(static_cast<std::int64_t>(kind));
    vocabulary.scores.push_back(score);
    return static_cast<Token>(tokens.size() - 1);
  }
  void add_bytes() {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    for (unsigned byte = 0; byte < 256; ++byte) {
      std::string text = "<0x";
      text += kDigits[byte >> 4U];
      text += kDigits[byte & 15U];
      add(text + ">", TokenKind::kByte, 0);
    }
  }
  const Vocabulary& view() {
    vocabulary.file = "scored";
    vocabulary.model = "llama";
    vocabulary.tokens = tokens;
    return vocabulary;
  }
  std::shared_ptr<const Tokenizer> make() {
    auto made = make_tokenizer(view());
    if (!made) FAIL(made.error().message());
    return *made;
  }
};

const Tokenizer::Options kPlain{.parse_special = false, .add_bos = false};

std::string error_of(ScoredVocabulary& scored) {
  const auto made = make_tokenizer(scored.view());
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().code == ErrorCode::kBadFormat);
  return made.error().message();
}

}  // namespace

TEST_CASE("the highest score merges first, the leftmost among equals") {
  ScoredVocabulary scored;
  scored.vocabulary.add_space_prefix = false;
  const Token a = scored.add("a", TokenKind::kNormal, -9);
  const Token b = scored.add("b", TokenKind::kNormal, -9);
  const Token ab = scored.add("ab", TokenKind::kNormal, -2);
  const Token ba = scored.add("ba", TokenKind::kNormal, -1);
  const Token aa = scored.add("aa", TokenKind::kNormal, -3);
  const auto tokenizer = scored.make();
  CHECK(tokenizer->encode("aba", kPlain) == std::vector<Token>{a, ba});
  CHECK(tokenizer->encode("abb", kPlain) == std::vector<Token>{ab, b});
  CHECK(tokenizer->encode("aaa", kPlain) == std::vector<Token>{aa, a});
  CHECK(tokenizer->encode("", kPlain).empty());
}

TEST_CASE("a space is put where a text starts, and only there") {
  ScoredVocabulary scored;
  const Token space = scored.add("\u2581", TokenKind::kNormal, -9);
  const Token x = scored.add("x", TokenKind::kNormal, -9);
  const Token space_x = scored.add("\u2581x", TokenKind::kNormal, -1);
  const Token tool = scored.add("<tool>", TokenKind::kUserDefined, 0);
  const auto tokenizer = scored.make();
  CHECK(tokenizer->adds_space());
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->encode("x", {}) == std::vector<Token>{1, space_x});
  CHECK(tokenizer->encode("x x", kPlain) == std::vector<Token>{space_x, space_x});
  CHECK(tokenizer->encode(" x", kPlain) == std::vector<Token>{space, space_x});
  CHECK(tokenizer->encode("x<tool>x", kPlain) == std::vector<Token>{space_x, tool, space_x});
  CHECK(tokenizer->encode("x", {.add_bos = false, .starts = false}) == std::vector<Token>{x});
  CHECK(tokenizer->encode("", {}) == std::vector<Token>{1});
  CHECK(tokenizer->piece(space_x, false) == " x");
  scored.vocabulary.add_eos = true;
  CHECK(scored.make()->encode("x", {.add_eos = true}) == std::vector<Token>{1, space_x, 2});
  CHECK(scored.make()->encode("x", {}) == std::vector<Token>{1, space_x});
}

TEST_CASE("what has no token becomes its bytes, or the unknown token where there are none") {
  ScoredVocabulary scored;
  scored.vocabulary.add_space_prefix = false;
  scored.add("x", TokenKind::kNormal, -9);
  const auto without = scored.make();
  CHECK(without->encode("x\u00e9x", kPlain) == std::vector<Token>{3, 0, 3});
  scored.add_bytes();
  const auto tokenizer = scored.make();
  CHECK(tokenizer->encode("x\u00e9\xff", kPlain) ==
        std::vector<Token>{3, 4 + 0xC3, 4 + 0xA9, 4 + 0xFF});
  CHECK(test::text_of(*tokenizer, tokenizer->encode("x\u00e9\xff", kPlain)) == "x\u00e9\xff");
}

TEST_CASE("no text becomes a control or byte token by spelling it") {
  ScoredVocabulary scored;
  scored.vocabulary.add_space_prefix = false;
  scored.add_bytes();
  for (const char* part : {"<", "s", ">", "/", "0", "x", "A", "<s", "<0", "<0x", "<0x0", "<0x0A"}) {
    scored.add(part, TokenKind::kNormal, -1);
  }
  const auto tokenizer = scored.make();
  for (const char* text : {"<s>", "</s>", "<0x0A>", "<unk>"}) {
    const auto tokens = tokenizer->encode(text, kPlain);
    CHECK(tokens.size() > 1);
    CHECK(test::text_of(*tokenizer, tokens) == text);
  }
  CHECK(tokenizer->encode("<s>", {.add_bos = false}) == std::vector<Token>{1});
}

TEST_CASE("random texts come back from byte fallback") {
  ScoredVocabulary scored;
  scored.vocabulary.add_space_prefix = false;
  scored.add_bytes();
  for (const char* text : {"\u2581", "t", "h", "e", "a", "\u2581t", "th", "\u2581th", "\u2581the",
                           "a\u2581", "\U0001F600\U0001F600", "\u2581\u2581", "9\u4e16"}) {
    scored.add(text, TokenKind::kNormal, -static_cast<float>(scored.tokens.size()));
  }
  // U+2581 alone does not: it is how SentencePiece writes a space.
  test::check_round_trips(*scored.make(), 11, "\u2581");
}

TEST_CASE("long lines without a place to cut come back") {
  ScoredVocabulary scored;
  scored.vocabulary.add_space_prefix = false;
  scored.add_bytes();
  for (const char* text :
       {"a", "aa", "aaaa", "\u2581", "\u2581\u2581", "\U0001F600", "\U0001F600\U0001F600"}) {
    scored.add(text, TokenKind::kNormal, -static_cast<float>(scored.tokens.size()));
  }
  const auto tokenizer = scored.make();
  for (const std::string_view part : {"a", " ", "\U0001F600", "\n", "\xff"}) {
    std::string line;
    while (line.size() < 1'000'000) line += part;
    const auto tokens = tokenizer->encode(line, kPlain);
    const bool back = test::text_of(*tokenizer, tokens) == line;
    CHECK(back);
  }
}

TEST_CASE("a vocabulary without good scores is refused") {
  ScoredVocabulary scored;
  scored.vocabulary.scores.pop_back();
  CHECK(error_of(scored).find("scored: tokenizer.ggml.scores has 2 entries") != std::string::npos);
  scored.vocabulary.scores.push_back(std::numeric_limits<float>::quiet_NaN());
  CHECK(error_of(scored).find("tokenizer.ggml.scores[2]") != std::string::npos);
  scored.vocabulary.scores.back() = 0;
  scored.vocabulary.unknown = 3;
  CHECK(error_of(scored).find("unknown_token_id = 3") != std::string::npos);
}
