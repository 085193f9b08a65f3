// What every tokenizer has in common: the tokens' bytes and kinds, and the special tokens in a
// text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer.h"
#include "engine/tokenizer_special.h"
#include "engine/tokenizer_vocabulary.h"

namespace mzcache::engine {

// Immutable, so thread-safe: what a call needs to remember lives in the call's Encoder.
class TableTokenizer : public Tokenizer {
 public:
  [[nodiscard]] std::vector<Token> encode(std::string_view text, Options options) const final;
  [[nodiscard]] std::string piece(Token token, bool special) const final;
  [[nodiscard]] std::size_t size() const noexcept final { return kinds_.size(); }
  [[nodiscard]] Token bos() const noexcept final { return bos_; }
  [[nodiscard]] Token eos() const noexcept final { return eos_; }
  [[nodiscard]] bool adds_bos() const noexcept final { return add_bos_ && bos_ >= 0; }
  [[nodiscard]] bool ends_generation(Token token) const noexcept final;
  [[nodiscard]] Token special(std::string_view text) const noexcept final {
    return specials_.exact(text);
  }

 protected:
  // Of the model's format, where the file says nothing.
  struct Defaults {
    Token bos = -1;
    Token eos = -1;
    bool add_bos = false;
  };
  // The bytes that the text of a normal token stands for.
  using Unspell = std::string (*)(std::string_view text);

  // The vocabulary has been checked: kinds and special ids are in range.
  TableTokenizer(const Vocabulary& vocabulary, Unspell unspell, Defaults defaults);

  // One call of encode(): gets the text between special tokens, piece by piece, and appends to the
  // tokens it was made with.
  class Encoder {
   public:
    virtual ~Encoder() = default;
    // `starts`: nothing, or a special token, is before it.
    virtual void add(std::string_view text, bool starts) = 0;
  };
  [[nodiscard]] virtual std::unique_ptr<Encoder> encoder(std::size_t text_bytes,
                                                         std::vector<Token>& tokens) const = 0;

  [[nodiscard]] std::string_view bytes(Token token) const noexcept;
  [[nodiscard]] TokenKind kind(Token token) const noexcept { return kinds_[token]; }
  [[nodiscard]] bool is_control(Token token) const noexcept;

 private:
  void read_tokens(const Vocabulary& vocabulary, Unspell unspell);

  std::string bytes_;                   // of all tokens, one after the other
  std::vector<std::uint32_t> offsets_;  // size() + 1
  std::vector<TokenKind> kinds_;
  SpecialTokens specials_;
  std::vector<Token> ends_;
  Token bos_ = -1;
  Token eos_ = -1;
  bool add_bos_ = false;
  bool add_eos_ = false;
};

}  // namespace mzcache::engine
