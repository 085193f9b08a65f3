// Which bytes of the swap file belong to whom. Pure bookkeeping: aligned slots, first fit, so that
// chunks written one after another lie side by side; the file grows by whole extents.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

#include "actors/units.h"

namespace mzcache::engine {

class SwapSlots {
 public:
  static constexpr std::uint64_t kExtentBytes = std::uint64_t{16} << 20;

  explicit SwapSlots(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Offset of a slot for `bytes`, or nothing where the budget is full.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes) {
    const std::uint64_t size = actors::align_up(bytes, actors::kBlockAlignment);
    std::uint64_t at = 0;
    for (const auto& [offset, used] : slots_) {
      if (offset - at >= size) break;
      at = offset + used;
    }
    if (size == 0 || at + size > bytes_max_) return std::nullopt;
    slots_.emplace(at, size);
    used_ += size;
    return at;
  }
  void free(std::uint64_t offset) {
    const auto found = slots_.find(offset);
    if (found == slots_.end()) return;
    used_ -= found->second;
    slots_.erase(found);
  }
  // The size the file must have for everything allocated, in whole extents within the budget.
  [[nodiscard]] std::uint64_t file_bytes() const {
    if (slots_.empty()) return 0;
    const auto last = std::prev(slots_.end());
    const std::uint64_t end = last->first + last->second;
    const std::uint64_t extents = actors::align_up(end, kExtentBytes);
    return extents < bytes_max_ ? extents : (end > bytes_max_ ? end : bytes_max_);
  }
  [[nodiscard]] std::uint64_t used_bytes() const noexcept { return used_; }
  [[nodiscard]] std::uint64_t free_bytes() const noexcept { return bytes_max_ - used_; }
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& slots() const noexcept {
    return slots_;
  }

 private:
  std::uint64_t bytes_max_;
  std::uint64_t used_ = 0;
  std::map<std::uint64_t, std::uint64_t> slots_;  // offset → bytes
};

}  // namespace mzcache::engine
