// GBNF: from text to rules. Source: llama.cpp, grammars/README.md.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "engine/grammar_builder.h"
#include "engine/tokenizer_utf8.h"

namespace mzcache::engine {
namespace {

constexpr std::size_t kTextBytesMax = std::size_t{1} << 20U;
constexpr unsigned kNestingMax = 200;
constexpr std::uint32_t kRepeatMax = 10'000;
constexpr char32_t kLastCharacter = 0x10FFFF;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class Parser {
 public:
  using Sequence = GrammarBuilder::Sequence;
  using Range = GrammarBuilder::Range;

  explicit Parser(std::string_view text) : text_(text) {}

  Result<Grammar> parse() {
    if (text_.size() > kTextBytesMax) {
      return Error{ErrorCode::kBadArgument, 0, "grammar",
                   std::to_string(text_.size()) + " bytes, limit " + std::to_string(kTextBytesMax)};
    }
    if (const std::size_t valid = utf8_valid_prefix(text_); valid < text_.size()) {
      fail("is not UTF-8 here", valid);
    }
    named_rule("root", 0);  // is rule 0
    skip_space();
    while (ok() && at_ < text_.size()) rule();
    if (ok()) check_defined();
    if (!ok()) return *error_;
    return builder_.finish();
  }

 private:
  struct Named {
    std::uint32_t rule;
    bool defined = false;
    std::size_t used_at = 0;
  };

  [[nodiscard]] bool ok() const noexcept { return !error_.has_value(); }
  void fail(const std::string& what) { fail(what, at_); }
  void fail(const std::string& what, std::size_t at) {
    if (!ok()) return;
    std::size_t line = 1;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < at && i < text_.size(); ++i) {
      if (text_[i] != '\n') continue;
      ++line;
      begin = i + 1;
    }
    error_ = Error{ErrorCode::kBadArgument, 0, "grammar",
                   "line " + std::to_string(line) + ", column " + std::to_string(at - begin + 1) +
                       ": " + what};
  }

  [[nodiscard]] char peek() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        if (at_ == text_.size()) return;
      } else if (std::string_view(" \t\r\n").find(text_[at_]) == std::string_view::npos) {
        return;
      }
    }
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    skip_space();
    return true;
  }
  std::string_view name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string_view taken = text_.substr(begin, at_ - begin);
    skip_space();
    return taken;
  }
  // A name and ::= begin the next rule.
  [[nodiscard]] bool at_rule() {
    const std::size_t begin = at_;
    const bool is_rule = !name().empty() && text_.substr(at_).starts_with("::=");
    at_ = begin;
    return is_rule;
  }
  Named& named_rule(std::string_view rule_name, std::size_t at) {
    const auto found = names_.find(rule_name);
    if (found != names_.end()) return found->second;
    return names_.try_emplace(rule_name, Named{builder_.add_rule(rule_name), false, at})
        .first->second;
  }

  void rule() {
    const std::size_t begin = at_;
    if (!at_rule()) return fail("a rule begins with its name and ::=");
    rule_name_ = name();
    at_ += 3;
    skip_space();
    Named& named = named_rule(rule_name_, begin);
    if (named.defined) return fail("rule " + std::string(rule_name_) + " is there already", begin);
    named.defined = true;
    alternatives(named.rule, 0);
  }

  void alternatives(std::uint32_t rule, unsigned depth) {
    do {
      Sequence sequence;
      while (ok() && at_ < text_.size() && peek() != '|' && peek() != ')' && !at_rule()) {
        const std::size_t begin = sequence.size();
        item(sequence, depth);
        while (ok() && quantifier(sequence, begin)) {
        }
        if (builder_.too_large()) {
          fail("the grammar has too many symbols, limit " +
               std::to_string(GrammarBuilder::kSymbolsMax));
        }
      }
      builder_.add_alternative(rule, sequence);
    } while (ok() && take('|'));
    if (depth == 0 && peek() == ')') fail("a ) without its (");
  }

  void item(Sequence& sequence, unsigned depth) {
    const std::size_t begin = at_;
    if (peek() == '"') {
      literal(sequence);
    } else if (peek() == '[') {
      character_class(sequence);
    } else if (take('.')) {
      builder_.append_character({{0, kLastCharacter}}, rule_name_, sequence);
    } else if (take('(')) {
      if (depth == kNestingMax) {
        return fail("groups are nested too deep, limit " + std::to_string(kNestingMax), begin);
      }
      const std::uint32_t group = builder_.add_rule(rule_name_);
      alternatives(group, depth + 1);
      if (ok() && !take(')')) fail("this ( has no )", begin);
      sequence.push_back({GrammarSymbol::Kind::kRule, group});
    } else if (const std::string_view used = name(); !used.empty()) {
      sequence.push_back({GrammarSymbol::Kind::kRule, named_rule(used, begin).rule});
    } else {
      fail("expected a \"literal\", a [class], a (group), . or the name of a rule");
    }
  }

  void literal(Sequence& sequence) {
    const std::size_t begin = at_++;
    while (ok() && peek() != '"') {
      if (at_ >= text_.size()) return fail("this \" has no other", begin);
      append_utf8(character(), sequence);
    }
    take('"');
  }

  void append_utf8(char32_t c, Sequence& sequence) {
    builder_.append_character({{c, c}}, rule_name_, sequence);
  }

  void character_class(Sequence& sequence) {
    const std::size_t begin = at_++;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    std::vector<Range> ranges;
    while (ok() && peek() != ']') {
      if (at_ >= text_.size()) return fail("this [ has no ]", begin);
      const std::size_t range_begin = at_;
      const char32_t first = character();
      char32_t last = first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        last = character();
      }
      if (ok() && last < first) return fail("a range from high to low", range_begin);
      ranges.emplace_back(first, last);
    }
    take(']');
    if (!ok()) return;
    if (negated) ranges = complement(std::move(ranges));
    if (ranges.empty()) return fail("a class without characters", begin);
    builder_.append_character(ranges, rule_name_, sequence);
  }

  static std::vector<Range> complement(std::vector<Range> ranges) {
    std::sort(ranges.begin(), ranges.end());
    std::vector<Range> others;
    char32_t next = 0;
    for (const auto& [first, last] : ranges) {
      if (first > next) others.emplace_back(next, first - 1);
      next = std::max<char32_t>(next, last + 1);
    }
    if (next <= kLastCharacter) others.emplace_back(next, kLastCharacter);
    return others;
  }

  // One character of a literal or class, escapes undone.
  char32_t character() {
    if (peek() == '\\') return escape();
    const std::size_t bytes = utf8_step(text_.substr(at_)).bytes;
    char32_t c = static_cast<unsigned char>(text_[at_]);
    if (bytes > 1) c &= 0x7FU >> bytes;
    for (std::size_t i = 1; i < bytes; ++i) {
      c = c << 6U | (static_cast<unsigned char>(text_[at_ + i]) & 0x3FU);
    }
    at_ += bytes;
    return c;
  }

  char32_t escape() {
    const std::size_t begin = at_++;
    const char kind = peek();
    ++at_;
    switch (kind) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return hexadecimal(2, begin);
      case 'u':
        return hexadecimal(4, begin);
      case 'U':
        return hexadecimal(8, begin);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<unsigned char>(kind);
      default:
        fail(
            "no such escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xNN \\uNNNN "
            "\\UNNNNNNNN",
            begin);
        return 0;
    }
  }

  char32_t hexadecimal(int digits, std::size_t begin) {
    char32_t value = 0;
    for (; digits > 0; --digits, ++at_) {
      const char digit = static_cast<char>(peek());
      const char lower = digit >= 'A' && digit <= 'F' ? static_cast<char>(digit | 0x20) : digit;
      const auto found = std::string_view("0123456789abcdef").find(lower);
      if (found == std::string_view::npos || at_ >= text_.size()) {
        fail("an escape with too few hexadecimal digits", begin);
        return 0;
      }
      value = value << 4U | static_cast<char32_t>(found);
    }
    if (value > kLastCharacter || (value >= 0xD800 && value <= 0xDFFF)) {
      fail("not a character (limit 10FFFF, without D800 to DFFF)", begin);
    }
    return value;
  }

  bool quantifier(Sequence& sequence, std::size_t begin) {
    constexpr std::uint32_t kWithoutEnd = GrammarBuilder::kWithoutEnd;
    if (take('*')) {
      builder_.repeat_tail(sequence, begin, 0, kWithoutEnd, rule_name_);
    } else if (take('+')) {
      builder_.repeat_tail(sequence, begin, 1, kWithoutEnd, rule_name_);
    } else if (take('?')) {
      builder_.repeat_tail(sequence, begin, 0, 1, rule_name_);
    } else if (const std::size_t at = at_; take('{')) {
      const std::uint32_t least = number();
      std::uint32_t most = least;
      if (ok() && take(',')) most = peek() == '}' ? kWithoutEnd : number();
      if (ok() && !take('}')) fail("expected }");
      if (ok() && most < least) fail("a repetition from high to low", at);
      if (!ok()) return false;
      builder_.repeat_tail(sequence, begin, least, most, rule_name_);
    } else {
      return false;
    }
    return true;
  }

  std::uint32_t number() {
    const std::size_t begin = at_;
    std::uint32_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + static_cast<std::uint32_t>(peek() - '0');
      if (value <= kRepeatMax) continue;
      fail("too many repetitions, limit " + std::to_string(kRepeatMax), begin);
      return 0;
    }
    if (at_ == begin) fail("expected a number of repetitions");
    skip_space();
    return value;
  }

  void check_defined() {
    if (!names_.at("root").defined) {
      error_ = Error{ErrorCode::kBadArgument, 0, "grammar", "there is no rule root"};
      return;
    }
    const Named* first = nullptr;
    std::string_view first_name;
    for (const auto& [used, named] : names_) {
      if (named.defined || (first != nullptr && first->used_at < named.used_at)) continue;
      first = &named;
      first_name = used;
    }
    if (first != nullptr) fail("there is no rule " + std::string(first_name), first->used_at);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view rule_name_;
  std::optional<Error> error_;
  GrammarBuilder builder_;
  std::unordered_map<std::string_view, Named> names_;
};

}  // namespace

Result<std::shared_ptr<const Grammar>> Grammar::parse(std::string_view text) {
  auto grammar = Parser(text).parse();
  if (!grammar) return std::move(grammar).error();
  return std::shared_ptr<const Grammar>(std::make_shared<const Grammar>(std::move(*grammar)));
}

}  // namespace mzcache::engine
