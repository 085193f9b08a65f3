// Which tokens may come next in an answer that must follow a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/grammar_matcher.h"
#include "engine/token_index.h"

namespace mzcache::engine {

// One answer's way through its grammar. For one thread.
class GrammarConstraint {
 public:
  GrammarConstraint(std::shared_ptr<const Grammar> grammar,
                    std::shared_ptr<const TokenIndex> index);

  // One bit per token, lowest first; valid until accept(). A token is allowed where its bytes go on
  // towards a text of the grammar, one that ends the answer where such a text is complete.
  [[nodiscard]] std::span<const std::uint64_t> allowed();
  // No token is: the grammar, or the vocabulary, has nothing more to say.
  [[nodiscard]] bool nothing_allowed();
  // The answer goes on with this token. One that was not allowed leads nowhere.
  void accept(Token token);
  [[nodiscard]] bool complete() const noexcept { return matcher_.complete(state_); }

 private:
  static constexpr std::size_t kMasksMax = 64;
  static constexpr std::size_t kStatesMax = 4096;  // then those that are not needed are given up

  struct Mask {
    std::vector<std::uint64_t> bits;
    bool empty = true;
  };
  const Mask& mask();
  Mask work_out();

  std::shared_ptr<const TokenIndex> index_;
  GrammarMatcher matcher_;
  GrammarMatcher::State state_;
  std::unordered_map<GrammarMatcher::State, Mask> masks_;
  std::vector<GrammarMatcher::State> path_;  // the state after each byte of a token
};

}  // namespace mzcache::engine
