#include "engine/grammar_builder.h"

#include <algorithm>

#include "engine/grammar_utf8.h"

namespace mzcache::engine {
namespace {

using Kind = GrammarSymbol::Kind;

Error bad_rule(const std::string& name, const std::string& what) {
  return {ErrorCode::kBadArgument, 0, "grammar", "rule " + name + " " + what};
}

struct Edge {
  std::uint32_t to;
  bool last;  // nothing follows in the alternative
};

// Which strongly connected component each node is in, by its first node (Tarjan's, without
// recursion).
std::vector<std::uint32_t> components(const std::vector<std::vector<Edge>>& begins) {
  constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  std::vector<std::uint32_t> order(begins.size(), kNone);
  std::vector<std::uint32_t> low(begins.size());
  std::vector<std::uint32_t> component(begins.size(), kNone);
  std::vector<std::uint32_t> open;
  std::vector<std::pair<std::uint32_t, std::size_t>> walk;
  std::uint32_t count = 0;
  for (std::uint32_t root = 0; root < begins.size(); ++root) {
    if (order[root] != kNone) continue;
    walk.emplace_back(root, 0);
    while (!walk.empty()) {
      const std::uint32_t rule = walk.back().first;
      if (walk.back().second == 0) {
        order[rule] = low[rule] = count++;
        open.push_back(rule);
      }
      if (walk.back().second < begins[rule].size()) {
        const std::uint32_t to = begins[rule][walk.back().second++].to;
        if (order[to] == kNone) {
          walk.emplace_back(to, 0);
        } else if (component[to] == kNone) {
          low[rule] = std::min(low[rule], order[to]);
        }
        continue;
      }
      walk.pop_back();
      if (!walk.empty()) low[walk.back().first] = std::min(low[walk.back().first], low[rule]);
      if (low[rule] != order[rule]) continue;
      std::uint32_t member = kNone;
      do {
        member = open.back();
        open.pop_back();
        component[member] = rule;
      } while (member != rule);
    }
  }
  return component;
}

constexpr std::size_t kNameBytesMax = 128;

}  // namespace

std::uint32_t GrammarBuilder::add_rule(std::string_view name) {
  // Names are for people; rules made of a part of another one bear its name, however long it is.
  grammar_.rules_.push_back({std::string(name.substr(0, kNameBytesMax)), {}});
  too_large_ |= grammar_.rules_.size() > kSymbolsMax;
  return static_cast<std::uint32_t>(grammar_.rules_.size() - 1);
}

void GrammarBuilder::add_alternative(std::uint32_t rule, const Sequence& sequence) {
  auto& symbols = grammar_.symbols_;
  if (symbols.size() + sequence.size() > kSymbolsMax) {
    too_large_ = true;
    return;
  }
  grammar_.rules_[rule].alternatives.push_back(static_cast<std::uint32_t>(symbols.size()));
  symbols.insert(symbols.end(), sequence.begin(), sequence.end());
  symbols.push_back({Kind::kEnd, 0});
}

GrammarSymbol GrammarBuilder::bytes_symbol(const ByteSet& set) {
  const auto count = static_cast<std::uint32_t>(grammar_.sets_.size());
  const auto [found, added] = sets_.try_emplace(set, count);
  if (added) grammar_.sets_.push_back(set);
  return {Kind::kBytes, found->second};
}

void GrammarBuilder::append_character(const std::vector<Range>& ranges, std::string_view rule_name,
                                      Sequence& sequence) {
  const auto ways = utf8_byte_ranges(ranges);
  std::vector<Sequence> alternatives;
  ByteSet single;
  bool any_single = false;
  for (const auto& way : ways) {
    if (way.size() == 1) {
      single.add(way[0].first, way[0].last);
      any_single = true;
      continue;
    }
    Sequence& alternative = alternatives.emplace_back();
    for (const ByteRange& range : way) {
      ByteSet set;
      set.add(range.first, range.last);
      alternative.push_back(bytes_symbol(set));
    }
  }
  if (any_single) alternatives.push_back({bytes_symbol(single)});
  if (alternatives.size() == 1) {
    sequence.insert(sequence.end(), alternatives[0].begin(), alternatives[0].end());
    return;
  }
  const std::uint32_t rule = add_rule(rule_name);
  for (const Sequence& alternative : alternatives) add_alternative(rule, alternative);
  sequence.push_back({Kind::kRule, rule});
}

// One symbol that stands for the tail of a sequence, which is taken away.
GrammarSymbol GrammarBuilder::unit_of(Sequence& sequence, std::size_t begin,
                                      std::string_view rule_name) {
  if (sequence.size() - begin == 1) {
    const GrammarSymbol unit = sequence.back();
    sequence.pop_back();
    return unit;
  }
  const std::uint32_t rule = add_rule(rule_name);
  add_alternative(rule, {sequence.begin() + static_cast<std::ptrdiff_t>(begin), sequence.end()});
  sequence.resize(begin);
  return {Kind::kRule, rule};
}

void GrammarBuilder::repeat_tail(Sequence& sequence, std::size_t begin, std::uint32_t least,
                                 std::uint32_t most, std::string_view rule_name) {
  if (sequence.size() == begin) return;  // nothing, any number of times
  const GrammarSymbol unit = unit_of(sequence, begin, rule_name);
  if (begin + least > kSymbolsMax) {
    too_large_ = true;
    return;
  }
  sequence.insert(sequence.end(), least, unit);
  if (most == kWithoutEnd) {
    const std::uint32_t more = add_rule(rule_name);
    add_alternative(more, {unit, {Kind::kRule, more}});
    add_alternative(more, {});
    sequence.push_back({Kind::kRule, more});
    return;
  }
  Sequence rest;
  for (std::uint32_t i = least; i < most && !too_large_; ++i) {
    const std::uint32_t more = add_rule(rule_name);
    rest.insert(rest.begin(), unit);
    add_alternative(more, rest);
    add_alternative(more, {});
    rest = {{Kind::kRule, more}};
  }
  sequence.insert(sequence.end(), rest.begin(), rest.end());
}

std::vector<bool> GrammarBuilder::closed_rules(bool bytes_count) const {
  struct Alternative {
    std::uint32_t rule;
    std::uint32_t missing;
  };
  std::vector<Alternative> alternatives;
  std::vector<std::vector<std::uint32_t>> users(grammar_.rules_.size());
  std::vector<bool> closed(grammar_.rules_.size());
  std::vector<std::uint32_t> fresh;
  const auto close = [&](std::uint32_t rule) {
    if (!closed[rule]) fresh.push_back(rule);
    closed[rule] = true;
  };
  for (std::uint32_t rule = 0; rule < closed.size(); ++rule) {
    for (std::uint32_t at : grammar_.rules_[rule].alternatives) {
      Alternative alternative{rule, 0};
      for (; grammar_.symbols_[at].kind != Kind::kEnd; ++at) {
        const GrammarSymbol& symbol = grammar_.symbols_[at];
        if (symbol.kind == Kind::kBytes && bytes_count) continue;
        ++alternative.missing;
        if (symbol.kind == Kind::kBytes) continue;  // stays missing
        users[symbol.value].push_back(static_cast<std::uint32_t>(alternatives.size()));
      }
      if (alternative.missing == 0) close(rule);
      alternatives.push_back(alternative);
    }
  }
  while (!fresh.empty()) {
    const std::uint32_t rule = fresh.back();
    fresh.pop_back();
    for (const std::uint32_t user : users[rule]) {
      if (--alternatives[user].missing == 0) close(alternatives[user].rule);
    }
  }
  return closed;
}

Error GrammarBuilder::check_completable() const {
  const std::vector<bool> completable = closed_rules(true);
  const auto never = std::find(completable.begin(), completable.end(), false);
  if (never == completable.end()) return {};
  return bad_rule(grammar_.rules_[never - completable.begin()].name,
                  "can never be completed: every alternative goes on without end");
}

// A rule that can begin with itself would be expanded without end, unless nothing follows it there
// (then it is the same place again).
Error GrammarBuilder::check_left_recursion() const {
  const std::vector<bool> empty = closed_rules(false);
  std::vector<std::vector<Edge>> begins(grammar_.rules_.size());
  for (std::size_t rule = 0; rule < begins.size(); ++rule) {
    for (std::uint32_t at : grammar_.rules_[rule].alternatives) {
      for (; grammar_.symbols_[at].kind == Kind::kRule; ++at) {
        const std::uint32_t to = grammar_.symbols_[at].value;
        begins[rule].push_back({to, grammar_.symbols_[at + 1].kind == Kind::kEnd});
        if (!empty[to]) break;
      }
    }
  }
  const std::vector<std::uint32_t> component = components(begins);
  for (std::uint32_t rule = 0; rule < begins.size(); ++rule) {
    for (const Edge& edge : begins[rule]) {
      if (component[edge.to] == component[rule] && !edge.last) {
        return bad_rule(grammar_.rules_[rule].name,
                        "can begin with itself (left recursion), which is not supported");
      }
    }
  }
  return {};
}

Result<Grammar> GrammarBuilder::finish() {
  if (Error error = check_completable(); error.code != ErrorCode::kOk) return error;
  if (Error error = check_left_recursion(); error.code != ErrorCode::kOk) return error;
  return std::move(grammar_);
}

}  // namespace mzcache::engine
