// A rate limit for reads, for experiments with slower storage than the machine has.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace mzcache::io {

// Says when a read may start so that bytes per second stay below the limit. Idle time earns no
// credit: the first read of a burst pays like every other. Not thread-safe.
class Throttle {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Throttle(std::uint64_t bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  [[nodiscard]] bool limits() const noexcept { return bytes_per_s_ != 0; }
  // Pays for `bytes`; the read may start at the returned time.
  [[nodiscard]] Time pay(std::uint64_t bytes, Time now) noexcept {
    if (!limits()) return now;
    const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_s_);
    paid_until_ = std::max(paid_until_, now) + std::chrono::duration_cast<Time::duration>(
                                                   std::chrono::duration<double>(seconds));
    return paid_until_;
  }

 private:
  std::uint64_t bytes_per_s_ = 0;
  Time paid_until_{};
};

}  // namespace mzcache::io
