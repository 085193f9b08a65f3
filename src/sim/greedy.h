// The token source of simulated conversations: greedy choice, a limit, and nothing else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "engine/requests.h"

namespace mzcache::sim {

// Owned by one request; not thread-safe.
class Greedy final : public engine::TokenSource {
 public:
  explicit Greedy(std::uint32_t tokens_max) : left_(tokens_max) {}
  [[nodiscard]] Decision next(std::span<const float> logits,
                              std::span<const Token>) noexcept override {
    const auto best = std::max_element(logits.begin(), logits.end());
    Decision decision;
    decision.token = static_cast<Token>(best - logits.begin());
    if (--left_ == 0) decision.stop = StopReason::kLength;
    return decision;
  }

 private:
  std::uint32_t left_;
};

}  // namespace mzcache::sim
