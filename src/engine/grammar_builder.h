// Putting a grammar together, rule by rule, and the checks of the whole.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/grammar.h"

namespace mzcache::engine {

// For one thread.
class GrammarBuilder {
 public:
  using Sequence = std::vector<GrammarSymbol>;
  using Range = std::pair<char32_t, char32_t>;  // code points, both included

  static constexpr std::size_t kSymbolsMax = 200'000;

  // A rule without alternatives yet. `name` is for errors.
  std::uint32_t add_rule(std::string_view name);
  void add_alternative(std::uint32_t rule, const Sequence& sequence);
  // Appends any character of the ranges (as UTF-8; surrogates are none).
  void append_character(const std::vector<Range>& ranges, std::string_view rule_name,
                        Sequence& sequence);
  // The last symbols of a sequence, from `begin`, repeated; `most` < `least` means without end.
  void repeat_tail(Sequence& sequence, std::size_t begin, std::uint32_t least, std::uint32_t most,
                   std::string_view rule_name);
  static constexpr std::uint32_t kWithoutEnd = 0xFFFFFFFFU;

  // More symbols than a grammar may have; what was added since is not all there.
  [[nodiscard]] bool too_large() const noexcept { return too_large_; }
  // Rules that are left-recursive, or can never be completed, are errors.
  [[nodiscard]] Result<Grammar> finish();

 private:
  GrammarSymbol bytes_symbol(const ByteSet& set);
  GrammarSymbol unit_of(Sequence& sequence, std::size_t begin, std::string_view rule_name);
  // Rules with an alternative of nothing but such rules, and of bytes if these count.
  [[nodiscard]] std::vector<bool> closed_rules(bool bytes_count) const;
  [[nodiscard]] Error check_completable() const;
  [[nodiscard]] Error check_left_recursion() const;

  Grammar grammar_;
  std::map<ByteSet, std::uint32_t> sets_;
  bool too_large_ = false;
};

}  // namespace mzcache::engine
