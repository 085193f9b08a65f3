// Which bytes a grammar allows next: its pushdown automaton, made a deterministic one state by
// state as they are met.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/grammar.h"

namespace mzcache::engine {

// A state is the set of all places in the grammar where the bytes so far may have led, each with
// the stack of rules to go on with. Stacks share their lower parts; equal states have equal ids, so
// what was worked out for one is known when it comes again. For one thread.
class GrammarMatcher {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;  // no text that begins like this is of the grammar

  explicit GrammarMatcher(std::shared_ptr<const Grammar> grammar);

  [[nodiscard]] State start() const noexcept { return start_; }
  [[nodiscard]] State next(State state, std::uint8_t byte) {
    const State known = states_[state].next == nullptr ? kUnknown : (*states_[state].next)[byte];
    return known != kUnknown ? known : work_out(state, byte);
  }
  // The bytes so far are a whole text of the grammar.
  [[nodiscard]] bool complete(State state) const noexcept { return states_[state].complete; }

  [[nodiscard]] std::size_t size() const noexcept { return states_.size(); }
  // Gives back the memory of all other states; their ids mean nothing any more. The state's new id.
  [[nodiscard]] State forget_but(State state);

 private:
  static constexpr State kUnknown = 0xFFFFFFFFU;
  static constexpr std::uint32_t kBottom = 0xFFFFFFFFU;  // under every stack
  // A grammar that is ambiguous without bounds loses readings, never gains any.
  static constexpr std::size_t kPlacesMax = 4096;
  static constexpr std::size_t kStatesMax = 200'000;
  static constexpr std::size_t kAllPlacesMax = 2'000'000;

  struct Place {
    std::uint32_t symbol;
    std::uint32_t below;  // the place to go on at when the alternative is done
  };
  using Places = std::vector<std::uint32_t>;
  struct StateData {
    Places places;  // at bytes, ascending
    bool complete = false;
    std::unique_ptr<std::array<State, 256>> next;
  };

  State work_out(State state, std::uint8_t byte);
  std::uint32_t place(std::uint32_t symbol, std::uint32_t below);
  // Adds the places at bytes that are reached from here without one.
  void expand(std::uint32_t symbol, std::uint32_t below, StateData& into);
  State intern(StateData data);

  std::shared_ptr<const Grammar> grammar_;
  std::vector<Place> places_;
  std::unordered_map<std::uint64_t, std::uint32_t> place_ids_;
  std::vector<StateData> states_;
  std::map<std::pair<bool, Places>, State> state_ids_;
  State start_ = kDead;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pending_;  // of expand()
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace mzcache::engine
