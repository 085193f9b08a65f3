// Back-pressure on data messages: how many bytes may be in flight at once.
#pragma once

#include <cassert>
#include <cstdint>

namespace mzcache::actors {

// Owned by one actor; not thread-safe. Whoever took credits gives them back when the bytes are no
// longer in flight; at destruction all must be back.
class Credits {
 public:
  explicit Credits(std::uint64_t bytes_max) noexcept : bytes_max_(bytes_max) {}
  ~Credits() { assert(in_flight_ == 0 && "credits were lost"); }
  Credits(const Credits&) = delete;
  Credits& operator=(const Credits&) = delete;

  // False where it would exceed the limit. Something larger than the whole limit goes when nothing
  // else is in flight: waiting would not make it smaller.
  [[nodiscard]] bool try_take(std::uint64_t bytes) noexcept {
    const bool fits = bytes <= bytes_max_ && in_flight_ <= bytes_max_ - bytes;
    if (!fits && in_flight_ != 0) return false;
    in_flight_ += bytes;
    return true;
  }
  void give(std::uint64_t bytes) noexcept {
    assert(bytes <= in_flight_ && "more credits came back than were taken");
    in_flight_ -= bytes;
  }

  [[nodiscard]] std::uint64_t bytes_max() const noexcept { return bytes_max_; }
  [[nodiscard]] std::uint64_t in_flight() const noexcept { return in_flight_; }
  [[nodiscard]] std::uint64_t available() const noexcept {
    return in_flight_ < bytes_max_ ? bytes_max_ - in_flight_ : 0;
  }

 private:
  std::uint64_t bytes_max_;
  std::uint64_t in_flight_ = 0;
};

}  // namespace mzcache::actors
