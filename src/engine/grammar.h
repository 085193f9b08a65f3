// Grammars that an answer must follow, in GBNF (llama.cpp's form of BNF), compiled to bytes.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mzcache/errors.h"

namespace mzcache::engine {

class ByteSet {
 public:
  void add(std::uint8_t first, std::uint8_t last) noexcept {
    for (unsigned byte = first; byte <= last; ++byte) words_[byte >> 6U] |= bit(byte);
  }
  [[nodiscard]] bool has(std::uint8_t byte) const noexcept {
    return (words_[byte >> 6U] & bit(byte)) != 0;
  }
  friend auto operator<=>(const ByteSet&, const ByteSet&) = default;

 private:
  static constexpr std::uint64_t bit(unsigned byte) noexcept {
    return std::uint64_t{1} << (byte & 63U);
  }
  std::array<std::uint64_t, 4> words_{};
};

struct GrammarSymbol {
  enum class Kind : std::uint8_t { kEnd, kBytes, kRule };
  Kind kind = Kind::kEnd;
  std::uint32_t value = 0;  // which set of bytes, which rule
};

// The compiled form: rules of alternatives of symbols. Immutable after parse(), so thread-safe.
class Grammar {
 public:
  // Rules `name ::= …`; the answer is what `root` describes. Sequences, |, ( ), * + ? {n} {n,}
  // {n,m}, "literals" and [classes] with escapes, ., # comments; line breaks are white space.
  // kBadArgument names line and column, or the rule: undefined, left-recursive, without an end.
  [[nodiscard]] static Result<std::shared_ptr<const Grammar>> parse(std::string_view text);

  static constexpr std::uint32_t kRoot = 0;
  // Where each alternative of a rule begins; it goes on to the next kEnd.
  [[nodiscard]] std::span<const std::uint32_t> alternatives(std::uint32_t rule) const noexcept {
    return rules_[rule].alternatives;
  }
  [[nodiscard]] const GrammarSymbol& symbol(std::uint32_t at) const noexcept {
    return symbols_[at];
  }
  [[nodiscard]] const ByteSet& bytes(const GrammarSymbol& symbol) const noexcept {
    return sets_[symbol.value];
  }

 private:
  friend class GrammarBuilder;
  struct Rule {
    std::string name;  // of the rule it is part of, where it has none itself
    std::vector<std::uint32_t> alternatives;
  };
  std::vector<Rule> rules_;
  std::vector<GrammarSymbol> symbols_;
  std::vector<ByteSet> sets_;
};

}  // namespace mzcache::engine
