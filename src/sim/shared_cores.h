// Devices that compute on the cores which decode, allocate and read: what the one takes the others
// lose.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "actors/ports.h"

namespace mzcache::sim {

// A stage beside a computing device, each as a share of its speed alone.
struct Beside {
  double stage = 1;
  double device = 1;
};
// Of every stage that has work for a processor. All ones: the device is apart.
struct Contention {
  Beside allocate;
  Beside decode;
  Beside read;
};

// Knows until when the device has work, and keeps what it owes: what it did not get done for what
// ran beside it. What is spent while it stands still costs nobody anything. Single-threaded, as the
// simulation is.
class SharedCores {
 public:
  // What takes `time` alone, from `now` on: how long it takes.
  [[nodiscard]] actors::Nanoseconds run(actors::Nanoseconds now, actors::Nanoseconds time,
                                        const Beside& beside) noexcept {
    if (device_busy_until_ <= now || time.count() <= 0) return time;
    const auto window = static_cast<double>((device_busy_until_ - now).count());
    const double stage = std::clamp(beside.stage, kSlowest, 1.0);
    const double overlap = std::min(window, static_cast<double>(time.count()) / stage);
    const actors::Nanoseconds late(
        static_cast<std::int64_t>(overlap * (1 - std::clamp(beside.device, kSlowest, 1.0))));
    owed_ += late;
    device_busy_until_ += late;
    return time + actors::Nanoseconds(static_cast<std::int64_t>(overlap * (1 - stage)));
  }
  // What the device's present piece of work takes longer.
  [[nodiscard]] actors::Nanoseconds take() noexcept {
    return std::exchange(owed_, actors::Nanoseconds{0});
  }
  void device_busy_until(actors::Nanoseconds time) noexcept { device_busy_until_ = time + owed_; }

 private:
  static constexpr double kSlowest = 0.05;

  actors::Nanoseconds device_busy_until_{0};
  actors::Nanoseconds owed_{0};
};

}  // namespace mzcache::sim
