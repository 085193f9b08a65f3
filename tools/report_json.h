// Reports as the JSON the command line promises: names carry their units.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "mzcache/model_info.h"
#include "mzcache/reports.h"

namespace mzcache::tools {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json to_json(const EvictReport& report);
[[nodiscard]] Json to_json(const RestoreReport& report);
[[nodiscard]] Json to_json(const ModelInfo& info);
[[nodiscard]] Json to_json(const SystemInfo& system);
[[nodiscard]] Json to_json(const LoadReport& report);

// One object, one line; text that is not UTF-8 comes out with U+FFFD.
void print_json(const Json& json);

// "97.7 MiB".
[[nodiscard]] std::string human_bytes(double bytes);
// The process's largest resident set so far.
[[nodiscard]] std::uint64_t peak_rss_bytes();

}  // namespace mzcache::tools
