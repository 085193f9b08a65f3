// The byte-level BPE tokenizer.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/bpe.h"
#include "engine/splitter.h"
#include "engine/tokenizer.h"
#include "engine/tokenizer_special.h"
#include "engine/tokenizer_vocabulary.h"

namespace mzcache::engine {

// Immutable, so thread-safe: what a call needs to remember lives in the call.
class BpeTokenizer final : public Tokenizer {
 public:
  // The vocabulary has been checked: kinds and special ids are in range.
  BpeTokenizer(const Vocabulary& vocabulary, Splitter splitter);

  // Bytes for which the vocabulary has no token are left out, as in the reference tokenizers.
  [[nodiscard]] std::vector<Token> encode(std::string_view text, Options options) const override;
  [[nodiscard]] std::string piece(Token token, bool special) const override;
  [[nodiscard]] std::size_t size() const noexcept override { return kinds_.size(); }
  [[nodiscard]] Token bos() const noexcept override { return bos_; }
  [[nodiscard]] Token eos() const noexcept override { return eos_; }
  [[nodiscard]] bool ends_generation(Token token) const noexcept override;
  [[nodiscard]] Token special(std::string_view text) const noexcept override {
    return specials_.exact(text);
  }

 private:
  class Encoder;

  [[nodiscard]] std::string_view bytes(Token token) const noexcept;
  [[nodiscard]] bool is_control(Token token) const noexcept;
  void read_tokens(const Vocabulary& vocabulary);
  void read_merges(const Vocabulary& vocabulary);
  void index_whole_words();
  [[nodiscard]] std::size_t whole_word_slot(std::string_view word) const noexcept;
  [[nodiscard]] Token whole_word(std::string_view word) const noexcept;

  Splitter splitter_;
  std::string bytes_;                   // of all tokens, one after the other
  std::vector<std::uint32_t> offsets_;  // size() + 1
  std::vector<TokenKind> kinds_;
  std::array<Token, 256> byte_tokens_{};
  BpeMerges merges_;
  SpecialTokens specials_;
  std::vector<Token>
      whole_words_;  // hash table; empty unless a word in the vocabulary skips merging
  std::vector<Token> ends_;
  Token bos_ = -1;
  Token eos_ = -1;
  bool add_bos_ = false;
};

}  // namespace mzcache::engine
