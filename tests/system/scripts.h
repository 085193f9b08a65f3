// Conversations of prefills with evictions and restores in between, and what their logits were.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "system/system_harness.h"

namespace mzcache::test {

struct Feed {
  std::uint32_t tokens;
};
struct EvictPercent {
  double percent;
};
struct RestoreAll {};
using Step = std::variant<Feed, EvictPercent, RestoreAll>;
using Script = std::vector<Step>;

struct Played {
  std::vector<float> rows;  // after every Feed: its first and its last position
  std::vector<EvictReport> evictions;
  bool recomputed = false;
};

// Plays the script on made-up tokens in a fresh conversation.
[[nodiscard]] Played play(System& system, const Script& script);
// The same without evictions and restores.
[[nodiscard]] Script only_feeds(const Script& script);
[[nodiscard]] std::string describe(const Script& script);

}  // namespace mzcache::test
