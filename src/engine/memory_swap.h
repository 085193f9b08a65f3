// The in-memory swap (paper §4.4): a stack of encoded chunks in one reserved address range, whose
// 2 MiB segments get memory when the stack reaches them and give it back when they are empty.
//
// Backward-out eviction pushes, forward-in restoration pops, the CompKV stage takes from the
// bottom, other orders leave holes; holes are used again before the stack grows.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "actors/ports.h"

namespace mzcache::engine {

class MemorySwap {
 public:
  // A reservation inside the range.
  struct Slot {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  explicit MemorySwap(actors::SharedMemory& memory) : memory_(memory) {}

  // Reserves the address range (no memory yet).
  [[nodiscard]] Result<void> reserve(std::uint64_t bytes);
  // Room for `bytes`; its segments have memory. kNoMemory where the range or the system is full.
  [[nodiscard]] Result<Slot> push(std::uint64_t bytes);
  // The encoded chunk turned out smaller than its slot.
  void shrink(Slot& slot, std::uint64_t bytes);
  void pop(const Slot& slot);

  [[nodiscard]] std::span<std::byte> bytes(const Slot& slot) const noexcept {
    return range_.subspan(slot.offset, slot.bytes);
  }
  // Memory held, in whole segments.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept {
    return segments_held_ * actors::kSegmentBytes;
  }
  [[nodiscard]] std::uint64_t used_bytes() const noexcept { return used_; }
  // Bytes in use in the lowest segment that has memory; 0 where none has.
  [[nodiscard]] std::uint64_t lowest_segment_bytes() const noexcept;
  [[nodiscard]] std::size_t slots() const noexcept { return slots_.size(); }

 private:
  [[nodiscard]] std::uint64_t find_room(std::uint64_t bytes) const noexcept;
  [[nodiscard]] Result<void> hold(const Slot& slot);
  void let_go(const Slot& slot);

  actors::SharedMemory& memory_;
  std::span<std::byte> range_;
  std::map<std::uint64_t, std::uint64_t> slots_;  // offset → bytes
  std::vector<std::uint32_t> users_;              // slots touching each segment
  std::uint64_t segments_held_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t covered_ = 0;  // used_ with what alignment adds to each slot
};

}  // namespace mzcache::engine
