// Devices that compute on the cores which decode and allocate: what the one takes the others lose.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "actors/ports.h"

namespace mzcache::sim {

// Keeps what the device owes: processor time spent beside it, spread over the cores. What is spent
// while it stands still costs nobody anything. Single-threaded, as the simulation is.
class SharedCores {
 public:
  explicit SharedCores(const std::uint32_t& cores) : cores_(cores) {}  // 0: nothing is shared

  // Processor time from `now` on.
  void spend(actors::Nanoseconds now, actors::Nanoseconds time) noexcept {
    if (cores_ == 0 || device_busy_until_ <= now) return;
    owed_ += std::min(time, device_busy_until_ - now) / cores_;
  }
  // What the device's next piece of work takes longer.
  [[nodiscard]] actors::Nanoseconds take() noexcept {
    return std::exchange(owed_, actors::Nanoseconds{0});
  }
  void device_busy_until(actors::Nanoseconds time) noexcept { device_busy_until_ = time; }

 private:
  const std::uint32_t& cores_;
  actors::Nanoseconds device_busy_until_{0};
  actors::Nanoseconds owed_{0};
};

}  // namespace mzcache::sim
