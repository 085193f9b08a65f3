// The table of configuration keys: what each accepts and where its value goes.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "mzcache/config.h"

namespace mzcache::engine {

// What became of a value: taken, not a value of this key, or a value of a feature that is not
// built yet.
enum class Verdict : std::uint8_t { kTaken, kRefused };

struct ConfigKey {
  std::string_view path;     // "storage.depth"
  std::string_view allowed;  // for people: "an integer from 1 to 1024"
  Verdict (*assign)(Config& config, const toml::node& value);
};

// nullptr where there is no such key.
[[nodiscard]] const ConfigKey* find_config_key(std::string_view path);
// "storage.block, storage.depth, …": the keys of a section, or the sections where there is none
// of that name.
[[nodiscard]] std::string known_config_keys(std::string_view section);
[[nodiscard]] bool is_config_section(std::string_view name);

}  // namespace mzcache::engine
