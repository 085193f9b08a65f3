// One simulated conversation: a user who asks, waits, cancels and forgets, a system that takes
// memory at any moment, a machine that fails. Everything follows from the seed.
#pragma once

#include <cstdint>
#include <string>

#include "sim/sim_world.h"

namespace mzcache::sim {

struct ConversationOptions {
  std::uint32_t requests = 24;  // of all kinds
  bool faults = true;           // a seeded choice of them, in the first phase
};

struct ConversationResult {
  std::string failure;  // empty: everything held
  std::uint64_t trace_hash = 0;
  std::uint64_t generated = 0;  // tokens
  std::uint64_t evictions = 0;
  std::uint64_t errors = 0;   // requests that failed, as they may under faults
  std::uint64_t dropped = 0;  // chunks, to be computed again: by policy, or because time was up
  std::uint64_t recomputed = 0;
};

// Phase one with faults, phase two without: then everything must succeed. Shut down at the end.
[[nodiscard]] ConversationResult run_conversation(std::uint64_t seed,
                                                  const ConversationOptions& options);

}  // namespace mzcache::sim
