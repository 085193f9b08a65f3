// Reading the configuration: a TOML file over the defaults, or one assignment. Which keys there
// are and what they accept stands in config_keys.cpp.
#include "mzcache/config.h"

#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>

#include "engine/config_keys.h"

namespace mzcache {
namespace {

using engine::ConfigKey;
using engine::Verdict;

constexpr std::string_view kPlacementPrefix = "placement.";

[[noreturn]] void fail(ErrorCode code, std::string where, std::string what) {
  throw Exception(Error{code, 0, std::move(where), std::move(what)});
}

std::string place_of(const std::string& file, const toml::source_region& source) {
  return file + ":" + std::to_string(source.begin.line);
}

// One line, and no more of a value than a message needs.
std::string shown(const toml::node& value) {
  std::ostringstream text;
  if (const auto* table = value.as_table()) {
    text << *table;
  } else if (const auto* array = value.as_array()) {
    text << *array;
  } else {
    value.visit([&text](const auto& concrete) {
      if constexpr (toml::is_value<decltype(concrete)>) text << concrete;
    });
  }
  std::string line = text.str();
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  constexpr std::size_t kShownMax = 80;
  if (line.size() > kShownMax) line = line.substr(0, kShownMax) + "…";
  return line;
}

[[noreturn]] void fail_unknown(const std::string& where, const std::string& path) {
  const std::string section = path.substr(0, path.find('.'));
  const bool known = engine::is_config_section(section);
  fail(ErrorCode::kBadConfig, where,
       "unknown key '" + path + "' (" + (known ? "keys: " : "sections: ") +
           engine::known_config_keys(section) + ")");
}

void check(Verdict verdict, const std::string& where, const ConfigKey& key,
           const std::string& value) {
  if (verdict == Verdict::kTaken) return;
  const std::string assignment = std::string(key.path) + " = " + value;
  const std::string allowed = " (allowed: " + std::string(key.allowed) + ")";
  fail(ErrorCode::kBadConfig, where, assignment + " is not allowed" + allowed);
}

void apply_section(Config& config, const std::string& file, std::string_view section,
                   const toml::table& table) {
  for (const auto& [name, value] : table) {
    const std::string path = std::string(section) + "." + std::string(name.str());
    const std::string where = place_of(file, name.source());
    const ConfigKey* key = engine::find_config_key(path);
    if (key == nullptr) fail_unknown(where, path);
    check(key->assign(config, value), where, *key, shown(value));
  }
}

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  if (!stream || stream.bad()) {
    throw Exception(Error{.code = ErrorCode::kNotFound,
                          .native = errno,
                          .operation = "read config",
                          .context = path,
                          .hint = "give a TOML file, or leave --config out for the defaults"});
  }
  return text.str();
}

// The value of an assignment as TOML would read it; nothing where it is not TOML.
std::optional<toml::table> parse_value(std::string_view value) {
  if (value.empty() || value.find_first_of("\r\n") != std::string_view::npos) return std::nullopt;
  try {
    toml::table table = toml::parse("value = " + std::string(value));
    if (table.size() != 1 || !table.contains("value")) return std::nullopt;
    return table;
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

// "placement.decompressor.workers=2" is "placement.decompressor={workers=2}".
const ConfigKey* find_nested_key(const std::string& path, std::string& inner) {
  const std::size_t dot = path.rfind('.');
  if (!path.starts_with(kPlacementPrefix) || dot < kPlacementPrefix.size()) return nullptr;
  inner = path.substr(dot + 1);
  return engine::find_config_key(path.substr(0, dot));
}

Verdict assign_nested(const ConfigKey& key, Config& config, const std::string& inner,
                      const toml::node& value) {
  if (inner.empty()) return key.assign(config, value);
  toml::table table;
  value.visit([&](const auto& concrete) { table.insert(inner, concrete); });
  return key.assign(config, table);
}

}  // namespace

Config Config::load(const std::string& path) {
  const std::string text = read_file(path);
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail(ErrorCode::kBadConfig, place_of(path, error.source()), std::string(error.description()));
  }
  Config config;
  for (const auto& [name, value] : root) {
    const std::string where = place_of(path, name.source());
    const std::string section(name.str());
    if (!engine::is_config_section(section)) fail_unknown(where, section);
    const auto* table = value.as_table();
    if (table == nullptr) {
      fail(ErrorCode::kBadConfig, where,
           "'" + section + "' is a section; its keys stand below a line with its name in brackets");
    }
    apply_section(config, path, section, *table);
  }
  return config;
}

void Config::set(std::string_view assignment) {
  const std::string where = "--set " + std::string(assignment);
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    fail(ErrorCode::kBadConfig, where, "write key=value, for example storage.depth=16");
  }
  const std::string path(assignment.substr(0, equals));
  const std::string value(assignment.substr(equals + 1));
  std::string inner;
  const ConfigKey* key = engine::find_config_key(path);
  if (key == nullptr) key = find_nested_key(path, inner);
  if (key == nullptr) fail_unknown(where, path);

  // As TOML first; a bare word, or a string that looks like a number, is taken as a string.
  Verdict verdict = Verdict::kRefused;
  if (const auto table = parse_value(value)) {
    verdict = assign_nested(*key, *this, inner, *table->get("value"));
  }
  if (verdict == Verdict::kRefused) {
    verdict = assign_nested(*key, *this, inner, toml::value<std::string>(value));
  }
  check(verdict, where, *key, value);
}

}  // namespace mzcache
