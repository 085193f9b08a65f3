#include "engine/grammar_matcher.h"

#include <algorithm>

namespace mzcache::engine {
namespace {

using Kind = GrammarSymbol::Kind;

std::uint64_t key_of(std::uint32_t symbol, std::uint32_t below) noexcept {
  return std::uint64_t{symbol} << 32U | below;
}

}  // namespace

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)) {
  intern({});  // kDead
  StateData start;
  seen_.clear();
  for (const std::uint32_t at : grammar_->alternatives(Grammar::kRoot)) expand(at, kBottom, start);
  start_ = intern(std::move(start));
}

std::uint32_t GrammarMatcher::place(std::uint32_t symbol, std::uint32_t below) {
  const auto count = static_cast<std::uint32_t>(places_.size());
  const auto [found, added] = place_ids_.try_emplace(key_of(symbol, below), count);
  if (added) places_.push_back({symbol, below});
  return found->second;
}

void GrammarMatcher::expand(std::uint32_t symbol, std::uint32_t below, StateData& into) {
  pending_.assign(1, {symbol, below});
  while (!pending_.empty()) {
    const auto [at, under] = pending_.back();
    pending_.pop_back();
    const std::uint64_t key = key_of(at, under);
    if (seen_.size() >= kPlacesMax || places_.size() >= kAllPlacesMax) return;
    if (!seen_.insert(key).second) continue;
    const GrammarSymbol& next = grammar_->symbol(at);
    if (next.kind == Kind::kBytes) {
      into.places.push_back(place(at, under));
    } else if (next.kind == Kind::kEnd) {
      if (under == kBottom) {
        into.complete = true;
      } else {
        pending_.emplace_back(places_[under].symbol, places_[under].below);
      }
    } else {
      // A rule at the end of an alternative needs no place to come back to.
      const bool last = grammar_->symbol(at + 1).kind == Kind::kEnd;
      const std::uint32_t back = last ? under : place(at + 1, under);
      for (const std::uint32_t alternative : grammar_->alternatives(next.value)) {
        pending_.emplace_back(alternative, back);
      }
    }
  }
}

GrammarMatcher::State GrammarMatcher::intern(StateData data) {
  std::sort(data.places.begin(), data.places.end());
  data.places.erase(std::unique(data.places.begin(), data.places.end()), data.places.end());
  const auto count = static_cast<State>(states_.size());
  const auto [found, added] = state_ids_.try_emplace(std::pair(data.complete, data.places), count);
  if (!added) return found->second;
  if (count >= kStatesMax) {
    state_ids_.erase(found);
    return kDead;
  }
  states_.push_back(std::move(data));
  return count;
}

GrammarMatcher::State GrammarMatcher::work_out(State state, std::uint8_t byte) {
  StateData reached;
  seen_.clear();
  for (const std::uint32_t id : states_[state].places) {
    const Place at = places_[id];
    if (!grammar_->bytes(grammar_->symbol(at.symbol)).has(byte)) continue;
    expand(at.symbol + 1, at.below, reached);
  }
  const State next = intern(std::move(reached));
  auto& known = states_[state].next;
  if (known == nullptr) {
    known = std::make_unique<std::array<State, 256>>();
    known->fill(kUnknown);
  }
  (*known)[byte] = next;
  return next;
}

GrammarMatcher::State GrammarMatcher::forget_but(State state) {
  const std::vector<Place> old_places = std::move(places_);
  StateData kept;
  kept.complete = states_[state].complete;
  const Places wanted = std::move(states_[state].places);
  places_.clear();
  place_ids_.clear();
  states_.clear();
  state_ids_.clear();
  intern({});
  // From the bottom of each stack up; what two stacks share is found again.
  std::vector<std::uint32_t> stack;
  for (const std::uint32_t top : wanted) {
    stack.clear();
    for (std::uint32_t at = top; at != kBottom; at = old_places[at].below) stack.push_back(at);
    std::uint32_t below = kBottom;
    for (; !stack.empty(); stack.pop_back()) below = place(old_places[stack.back()].symbol, below);
    kept.places.push_back(below);
  }
  return intern(std::move(kept));
}

}  // namespace mzcache::engine
