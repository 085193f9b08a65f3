// What a restore will have to do: every unit that is not resident, with where it comes from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine_state.h"

namespace mzcache::tools {

struct Missing {
  struct Read {
    actors::FileRange range;
    std::optional<std::uint64_t> checksum;  // of the first checked_bytes
    std::uint64_t checked_bytes = 0;
  };
  struct Decode {
    actors::UnitId unit;
    std::span<const std::byte> encoded;  // in the in-memory swap; empty: what reads[read] brings
    std::size_t read = 0;
    std::uint32_t token_count = 0;
    actors::CodecTier tier = actors::CodecTier::kMemory;
  };
  std::vector<Read> reads;  // in the order of a forward pass
  std::vector<Decode> decodes;
  std::vector<std::uint64_t> runs;  // bytes that get memory at once
  std::uint64_t bytes = 0;          // of all runs
};

// On the coordinator's thread, while nothing moves.
[[nodiscard]] Missing missing_of(const engine::EngineState& state, std::uint32_t context);

}  // namespace mzcache::tools
