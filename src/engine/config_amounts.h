// Numbers with units, as the config file and the command line write them. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "mzcache/config.h"

namespace mzcache::engine {

// "2s", "1.5s", "500ms" → seconds. At most a day.
[[nodiscard]] Result<double> parse_seconds(std::string_view text);
// "400MiB/s", "" (none) → bytes per second, 0 where there is no limit.
[[nodiscard]] Result<std::uint64_t> parse_rate(std::string_view text);
// "50%" → 50; from 0 to `max`. Anything without the sign is refused.
[[nodiscard]] Result<double> parse_percent(std::string_view text, double max);

}  // namespace mzcache::engine
