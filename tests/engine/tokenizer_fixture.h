// A small byte-level vocabulary, learned from a few lines of text, and random texts.
#pragma once

#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/bpe_alphabet.h"
#include "engine/tokenizer_vocabulary.h"
#include "support/catch.h"

namespace mzcache::test {

using engine::Token;
using engine::TokenKind;

struct SmallVocabulary {
  std::vector<std::string> tokens;
  std::vector<std::string> merges;
  std::vector<std::int64_t> kinds;
  engine::Vocabulary vocabulary;

  Token add(std::string text, TokenKind kind) {
    tokens.push_back(std::move(text));
    kinds.push_back(static_cast<std::int64_t>(kind));
    return static_cast<Token>(tokens.size() - 1);
  }
  // Merges the most frequent pair of the text, `count` times.
  void learn(std::string_view text, int count) {
    std::vector<std::string> symbols;
    for (const char byte : text)
      symbols.push_back(engine::bpe_spell(static_cast<unsigned char>(byte)));
    for (int i = 0; i < count; ++i) {
      std::map<std::pair<std::string, std::string>, int> pairs;
      for (std::size_t at = 0; at + 1 < symbols.size(); ++at)
        ++pairs[{symbols[at], symbols[at + 1]}];
      auto best = pairs.begin();
      for (auto at = pairs.begin(); at != pairs.end(); ++at) {
        if (at->second > best->second) best = at;
      }
      const auto [left, right] = best->first;
      merges.push_back(left + " " + right);
      const std::string merged = left + right;
      if (std::find(tokens.begin(), tokens.end(), merged) == tokens.end()) {
        add(merged, TokenKind::kNormal);
      }
      std::vector<std::string> next;
      for (std::size_t at = 0; at < symbols.size(); ++at) {
        const bool merges_here =
            at + 1 < symbols.size() && symbols[at] == left && symbols[at + 1] == right;
        next.push_back(merges_here ? merged : symbols[at]);
        if (merges_here) ++at;
      }
      symbols = std::move(next);
    }
  }
  const engine::Vocabulary& view(std::string splitter) {
    vocabulary.file = "small";
    vocabulary.model = "gpt2";
    vocabulary.splitter = std::move(splitter);
    vocabulary.tokens = tokens;
    vocabulary.merges = merges;
    vocabulary.kinds = kinds;
    return vocabulary;
  }
  std::shared_ptr<const engine::Tokenizer> make(std::string splitter) {
    auto made = engine::make_tokenizer(view(std::move(splitter)));
    if (!made) FAIL(made.error().message());
    return *made;
  }
};

// All bytes, and 120 merges.
inline SmallVocabulary small_vocabulary() {
  SmallVocabulary small;
  for (unsigned byte = 0; byte < 256; ++byte) {
    small.add(engine::bpe_spell(static_cast<unsigned char>(byte)), TokenKind::kNormal);
  }
  small.learn(
      "the theme of the other thing is that there they then thaw\n aaaa aaaaaaaa bbbb  abab ababab "
      "caf\u00e9 na\u00efve \u00e9\u00e9\u00e9\u00e9  \U0001F600\U0001F600\U0001F600\U0001F601 12 "
      "123 1234 "
      "<|im_start|> user\n\n\n    deep\n        deeper\n don't won't I'll we've it's it's it's",
      120);
  return small;
}

inline void append_utf8(std::string& text, char32_t c) {
  const auto put = [&text](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

// Up to 24 characters, from all planes and often from where splitters decide: white space, digits,
// quotes and letters.
inline std::string random_utf8(std::mt19937_64& random) {
  static constexpr std::u32string_view kOften =
      U"  \t\n\r\u00a0\u2003\u3000\u0085\u180e''stdmrevl0123456789\u0663\u00bd.,!?<|im_end>aAzZ"
      U"\u00e9\u4e16\uac00\U0001F600\u200d\u0301";
  std::string text;
  const std::size_t length = random() % 25;
  for (std::size_t i = 0; i < length; ++i) {
    char32_t c = kOften[random() % kOften.size()];
    if (random() % 4 == 0) {
      c = static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x3000 : 0x110000));
      if (c >= 0xD800 && c < 0xE000) c = U'x';
    }
    append_utf8(text, c);
  }
  return text;
}

inline std::string random_bytes(std::mt19937_64& random) {
  std::string text(random() % 25, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

inline std::string text_of(const engine::Tokenizer& tokenizer, const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += tokenizer.piece(token, true);
  return text;
}

// 100,000 short texts, valid and not, come back byte for byte. Texts with `but` in them are left
// out.
inline void check_round_trips(const engine::Tokenizer& tokenizer, std::uint64_t seed,
                              std::string_view but = {}) {
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 100000; ++i) {
    const std::string text = i % 2 == 0 ? random_utf8(random) : random_bytes(random);
    if (!but.empty() && text.find(but) != std::string::npos) continue;
    const auto tokens = tokenizer.encode(text, {.parse_special = false, .add_bos = false});
    const std::string back = text_of(tokenizer, tokens);
    if (back != text) {
      CAPTURE(i, text, back);
      REQUIRE(back == text);
    }
  }
}

}  // namespace mzcache::test
