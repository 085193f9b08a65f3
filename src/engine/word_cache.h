// The words of one text and the tokens they became: words repeat.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/tokenizer.h"

namespace mzcache::engine {

// A table of places in the text and in the output, so nothing is copied. For one thread; lives no
// longer than the texts whose words it gets.
class WordCache {
 public:
  explicit WordCache(std::size_t text_bytes)
      : slots_(std::min(kSlotsMax, std::bit_ceil(text_bytes / 4 + 1))) {}

  // Appends the tokens of a word: those of its last occurrence, or what `encode` appends.
  template <class Encode>
  void add(std::string_view word, std::vector<Token>& tokens, Encode encode) {
    Known& known = slots_[std::hash<std::string_view>{}(word) & (slots_.size() - 1)];
    const std::size_t begin = tokens.size();
    if (known.word == word) {  // words are not empty
      for (std::size_t i = 0; i < known.count; ++i) {
        const Token token = tokens[known.begin + i];
        tokens.push_back(token);
      }
      return;
    }
    encode(word, tokens);
    known = {word, begin, tokens.size() - begin};
  }

 private:
  static constexpr std::size_t kSlotsMax = std::size_t{1} << 16U;
  struct Known {
    std::string_view word;
    std::size_t begin = 0;
    std::size_t count = 0;
  };
  std::vector<Known> slots_;
};

// Longer words are cut: merging needs 28 bytes of working memory per byte of a word.
constexpr std::size_t kWordBytesMax = std::size_t{1} << 26U;

}  // namespace mzcache::engine
