// SentencePiece's BPE: characters merge, the pair whose token has the highest score first; what has
// no token falls back to its bytes. Source: SentencePiece (Kudo and Richardson, 2018), bpe_model.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/bpe.h"
#include "engine/token_table.h"

namespace mzcache::engine {

// Immutable, so thread-safe. Only normal tokens come out of merging: no text becomes a control or a
// byte token by spelling it.
class SpmTokenizer final : public TableTokenizer {
 public:
  // The vocabulary has been checked; it has a score for every token.
  explicit SpmTokenizer(const Vocabulary& vocabulary);

  [[nodiscard]] bool adds_space() const noexcept override { return space_prefix_; }

 private:
  class PieceEncoder;
  // A character, for the table of neighbours: itself, or one class for all outside ASCII.
  static constexpr std::size_t kClasses = 129;
  using Spelled = std::unordered_map<std::string_view, Token>;

  [[nodiscard]] std::unique_ptr<Encoder> encoder(std::size_t text_bytes,
                                                 std::vector<Token>& tokens) const override;
  void read_characters(const Spelled& spelled);
  void read_merges(const Vocabulary& vocabulary, const Spelled& spelled);
  // Appends what a character begins as: its symbol, or the tokens of its bytes.
  void add_symbols(std::string_view character, std::vector<Token>& symbols) const;
  void add_bytes(std::string_view bytes, std::vector<Token>& tokens) const;

  // Symbols from size() on are characters inside tokens that are no token themselves.
  std::array<Token, 128> ascii_symbols_{};
  std::unordered_map<std::string, Token> other_symbols_;
  std::vector<std::string> loose_characters_;
  std::array<Token, 256> byte_tokens_{};
  BpeMerges merges_;
  // Whether any token has two such characters side by side: where none has, text can be cut.
  std::array<std::array<bool, kClasses>, kClasses> neighbours_{};
  Token unknown_ = -1;
  bool space_prefix_ = true;
};

}  // namespace mzcache::engine
