#include "engine/memory_swap.h"

#include <limits>
#include <string>

namespace mzcache::engine {
namespace {

using actors::kSegmentBytes;

// Slots begin at multiples of this, so that codecs may use aligned loads.
constexpr std::uint64_t kSlotAlignment = 64;
constexpr std::uint64_t kNowhere = std::numeric_limits<std::uint64_t>::max();

std::uint64_t first_segment(const MemorySwap::Slot& slot) { return slot.offset / kSegmentBytes; }
std::uint64_t last_segment(const MemorySwap::Slot& slot) {
  return (slot.offset + slot.bytes - 1) / kSegmentBytes;
}

}  // namespace

Result<void> MemorySwap::reserve(std::uint64_t bytes) {
  Result<std::span<std::byte>> range = memory_.reserve_swap(actors::align_up(bytes, kSegmentBytes));
  if (!range) return range.error();
  range_ = *range;
  users_.assign(range_.size() / kSegmentBytes, 0);
  return {};
}

std::uint64_t MemorySwap::find_room(std::uint64_t bytes) const noexcept {
  std::uint64_t at = 0;
  if (!slots_.empty()) {
    const auto& [offset, size] = *slots_.rbegin();
    const std::uint64_t top = actors::align_up(offset + size, kSlotAlignment);
    if (top == covered_) at = top;  // no hole below, as in a stack
  }
  for (auto slot = slots_.lower_bound(at); slot != slots_.end(); ++slot) {
    const auto& [offset, size] = *slot;
    if (offset >= at && offset - at >= bytes) return at;
    at = actors::align_up(offset + size, kSlotAlignment);
  }
  return at + bytes <= users_.size() * kSegmentBytes ? at : kNowhere;
}

std::uint64_t MemorySwap::lowest_segment_bytes() const noexcept {
  if (slots_.empty()) return 0;
  const std::uint64_t segment = slots_.begin()->first / kSegmentBytes;
  std::uint64_t bytes = 0;
  for (const auto& [offset, size] : slots_) {
    if (offset / kSegmentBytes != segment) break;
    bytes += size;
  }
  return bytes;
}

Result<MemorySwap::Slot> MemorySwap::push(std::uint64_t bytes) {
  const std::uint64_t offset = find_room(bytes);
  if (bytes == 0 || offset == kNowhere) {
    return Error{
        ErrorCode::kNoMemory, 0, "in-memory swap",
        std::to_string(bytes) + " bytes do not fit into its " + std::to_string(range_.size())};
  }
  const Slot slot{offset, bytes};
  if (Result<void> held = hold(slot); !held) return held.error();
  slots_.emplace(offset, bytes);
  used_ += bytes;
  covered_ += actors::align_up(bytes, kSlotAlignment);
  return slot;
}

Result<void> MemorySwap::hold(const Slot& slot) {
  for (std::uint64_t i = first_segment(slot); i <= last_segment(slot); ++i) {
    if (users_[i]++ > 0) continue;
    if (Result<void> populated = memory_.populate_segment(i); !populated) {
      --users_[i];
      for (std::uint64_t j = first_segment(slot); j < i; ++j) {
        if (--users_[j] > 0) continue;
        memory_.release_segment(j);
        --segments_held_;
      }
      return populated;
    }
    ++segments_held_;
  }
  return {};
}

void MemorySwap::let_go(const Slot& slot) {
  for (std::uint64_t i = first_segment(slot); i <= last_segment(slot); ++i) {
    if (--users_[i] > 0) continue;
    memory_.release_segment(i);
    --segments_held_;
  }
}

void MemorySwap::shrink(Slot& slot, std::uint64_t bytes) {
  if (bytes == 0 || bytes >= slot.bytes) return;
  const Slot kept{slot.offset, bytes};
  for (std::uint64_t i = last_segment(kept) + 1; i <= last_segment(slot); ++i) {
    if (--users_[i] > 0) continue;
    memory_.release_segment(i);
    --segments_held_;
  }
  used_ -= slot.bytes - bytes;
  covered_ -=
      actors::align_up(slot.bytes, kSlotAlignment) - actors::align_up(bytes, kSlotAlignment);
  slots_[slot.offset] = bytes;
  slot.bytes = bytes;
}

void MemorySwap::pop(const Slot& slot) {
  if (slots_.erase(slot.offset) == 0) return;
  used_ -= slot.bytes;
  covered_ -= actors::align_up(slot.bytes, kSlotAlignment);
  let_go(slot);
}

}  // namespace mzcache::engine
