// Durations as reports state them.
#pragma once

#include "actors/ports.h"

namespace mzcache::engine {

[[nodiscard]] inline double to_ms(actors::Nanoseconds time) noexcept {
  return static_cast<double>(time.count()) / 1e6;
}

}  // namespace mzcache::engine
