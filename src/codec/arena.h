// Scratch handed out piece by piece. Over an empty span it only counts, so that one function both
// sizes and lays out a codec's workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mzcache::codec {

class Arena {
 public:
  Arena() = default;
  explicit Arena(std::span<std::byte> memory) : memory_(memory) {}

  template <class Value>
  [[nodiscard]] std::span<Value> take(std::uint64_t count) {
    const std::uint64_t at = used_;
    used_ += (count * sizeof(Value) + 63) / 64 * 64;
    if (memory_.empty()) return {};
    return {reinterpret_cast<Value*>(memory_.data() + at), count};
  }
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }

 private:
  std::span<std::byte> memory_;
  std::uint64_t used_ = 0;
};

}  // namespace mzcache::codec
