#include "engine/config_keys.h"

#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>

#include "engine/config_amounts.h"
#include "engine/config_codecs.h"

namespace mzcache::engine {
namespace {

using toml::node;

Verdict verdict(bool taken) { return taken ? Verdict::kTaken : Verdict::kRefused; }

// --- values of one type ---------------------------------------------------------------------

Verdict assign_bool(bool& target, const node& value) {
  const auto* boolean = value.as_boolean();
  if (boolean != nullptr) target = boolean->get();
  return verdict(boolean != nullptr);
}

template <class Integer>
Verdict assign_integer(Integer& target, const node& value, std::int64_t min, std::int64_t max) {
  const auto* integer = value.as_integer();
  if (integer == nullptr || integer->get() < min || integer->get() > max) return Verdict::kRefused;
  target = static_cast<Integer>(integer->get());
  return Verdict::kTaken;
}

std::optional<double> number_of(const node& value) {
  if (const auto* integer = value.as_integer()) return static_cast<double>(integer->get());
  if (const auto* real = value.as_floating_point()) {
    if (std::isfinite(real->get())) return real->get();
  }
  return std::nullopt;
}

Verdict assign_size(std::uint64_t& target, const node& value) {
  if (const auto* integer = value.as_integer()) {
    if (integer->get() < 0) return Verdict::kRefused;
    target = static_cast<std::uint64_t>(integer->get());
    return Verdict::kTaken;
  }
  const auto* text = value.as_string();
  if (text == nullptr) return Verdict::kRefused;
  auto bytes = parse_size(text->get());
  if (bytes) target = *bytes;
  return verdict(bytes.ok());
}

// "400MiB/s", or bytes per second as a number; 0: not given.
Verdict assign_rate(double& target, const node& value) {
  const auto number = number_of(value);
  if (!number || *number < 0) return Verdict::kRefused;
  target = *number;
  return Verdict::kTaken;
}

Verdict assign_throughput(double& target, const node& value) {
  if (number_of(value)) return assign_rate(target, value);
  const auto* text = value.as_string();
  if (text == nullptr) return Verdict::kRefused;
  auto rate = parse_rate(text->get());
  if (rate) target = static_cast<double>(*rate);
  return verdict(rate.ok());
}

constexpr const char* kCodecs =
    "\"q8\", \"none\", \"q4\", \"entropy\", \"entropy:near\", \"entropy:small\", \"entropy:free\", "
    "\"packed\", \"cachegen\", \"zstd\", \"lz4\", \"split-zstd\", or one that the application has "
    "added";

Verdict assign_text(std::string& target, const node& value) {
  const auto* text = value.as_string();
  if (text == nullptr || text->get().find('\0') != std::string::npos) return Verdict::kRefused;
  target = text->get();
  return Verdict::kTaken;
}

Verdict assign_choice(std::string& target, const node& value,
                      std::initializer_list<std::string_view> choices) {
  const auto* text = value.as_string();
  if (text == nullptr) return Verdict::kRefused;
  for (const std::string_view choice : choices) {
    if (choice != text->get()) continue;
    target = text->get();
    return Verdict::kTaken;
  }
  return Verdict::kRefused;
}

Verdict assign_codec(std::string& target, const node& value) {
  const auto* text = value.as_string();
  if (text == nullptr || !is_codec_name(text->get())) return Verdict::kRefused;
  target = text->get();
  return Verdict::kTaken;
}

// --- placement --------------------------------------------------------------------------------

constexpr std::uint32_t kCoreMax = 4095;
constexpr std::uint32_t kWorkersMax = 256;

bool assign_core_list(PlacementConfig& target, const toml::array& list) {
  std::vector<std::uint32_t> ids;
  for (const node& entry : list) {
    std::uint32_t id = 0;
    if (assign_integer(id, entry, 0, kCoreMax) != Verdict::kTaken) return false;
    ids.push_back(id);
  }
  if (ids.empty()) return false;
  target.core_ids = std::move(ids);
  return true;
}

bool assign_cores(PlacementConfig& target, const node& value) {
  if (const auto* list = value.as_array()) return assign_core_list(target, *list);
  if (assign_choice(target.cores, value, {"big", "middle", "little", "any"}) != Verdict::kTaken) {
    return false;
  }
  target.core_ids.clear();
  return true;
}

bool assign_workers(PlacementConfig& target, const node& value) {
  std::string word;
  if (assign_choice(word, value, {"auto"}) == Verdict::kTaken) {
    target.workers = 0;
    return true;
  }
  return assign_integer(target.workers, value, 1, kWorkersMax) == Verdict::kTaken;
}

// "big", [6, 7], or { cores = either, workers = 2 | "auto" } where the kind can have several.
Verdict assign_placement(PlacementConfig& target, const node& value, bool several) {
  PlacementConfig wanted = target;
  const auto* table = value.as_table();
  if (table == nullptr) {
    if (!assign_cores(wanted, value)) return Verdict::kRefused;
    target = std::move(wanted);
    return Verdict::kTaken;
  }
  for (const auto& [key, entry] : *table) {
    const bool taken = key.str() == "cores"     ? assign_cores(wanted, entry)
                       : key.str() == "workers" ? several && assign_workers(wanted, entry)
                                                : false;
    if (!taken) return Verdict::kRefused;
  }
  target = std::move(wanted);
  return Verdict::kTaken;
}

// --- keys with forms of their own ---------------------------------------------------------------

Verdict assign_memory_swap_max(Config& config, const node& value) {
  if (const auto* text = value.as_string(); text != nullptr && text->get().ends_with('%')) {
    auto percent = parse_percent(text->get(), 100);
    if (!percent) return Verdict::kRefused;
    config.memory.memory_swap_max_percent = *percent;
    config.memory.memory_swap_max_bytes = 0;
    return Verdict::kTaken;
  }
  std::uint64_t bytes = 0;
  if (assign_size(bytes, value) != Verdict::kTaken) return Verdict::kRefused;
  config.memory.memory_swap_max_bytes = bytes;
  // Bytes count only where they are not 0; no memory at all is a share of nothing.
  config.memory.memory_swap_max_percent = bytes == 0 ? 0.0 : 100.0;
  return Verdict::kTaken;
}

Verdict assign_keep_compressed(Config& config, const node& value) {
  return assign_size(config.memory.keep_compressed, value);
}

Verdict assign_cpu_price(Config& config, const node& value) {
  std::string word;
  if (assign_choice(word, value, {"auto"}) == Verdict::kTaken) {
    config.policy.cpu_price = -1;
    return Verdict::kTaken;
  }
  const auto number = number_of(value);
  if (!number || *number < 0) return Verdict::kRefused;
  config.policy.cpu_price = *number;
  return Verdict::kTaken;
}

Verdict assign_resume_delay(Config& config, const node& value) {
  const auto* text = value.as_string();
  if (text == nullptr) return Verdict::kRefused;
  auto seconds = parse_seconds(text->get());
  if (seconds) config.policy.resume_delay_s = *seconds;
  return verdict(seconds.ok());
}

Verdict assign_block(Config& config, const node& value) {
  constexpr std::uint64_t kMin = std::uint64_t{4} << 10;
  constexpr std::uint64_t kMax = std::uint64_t{64} << 20;
  std::uint64_t bytes = 0;
  if (assign_size(bytes, value) != Verdict::kTaken) return Verdict::kRefused;
  if (bytes < kMin || bytes > kMax || (bytes & (bytes - 1)) != 0) return Verdict::kRefused;
  config.storage.block = bytes;
  return Verdict::kTaken;
}

Verdict assign_limit(Config& config, const node& value) {
  const auto* text = value.as_string();
  if (text == nullptr) return Verdict::kRefused;
  auto rate = parse_rate(text->get());
  if (rate) config.storage.limit_bytes_per_s = *rate;
  return verdict(rate.ok());
}

Verdict assign_pin_workers(Config& config, const node& value) {
  if (const auto* boolean = value.as_boolean()) {
    config.device.pin_workers = boolean->get() ? "true" : "false";
    return Verdict::kTaken;
  }
  return assign_choice(config.device.pin_workers, value, {"auto", "true", "false"});
}

Verdict assign_swap_directory(Config& config, const node& value) {
  std::string directory;
  if (assign_text(directory, value) != Verdict::kTaken || directory.empty()) {
    return Verdict::kRefused;
  }
  config.memory.swap_directory = std::move(directory);
  return Verdict::kTaken;
}

// --- the table
// ------------------------------------------------------------------------------------

constexpr std::string_view kOneWorker =
    "\"big\", \"middle\", \"little\", \"any\", a list of cores such as [6, 7], or { cores = one of "
    "these }";
constexpr std::string_view kSeveralWorkers =
    "\"big\", \"middle\", \"little\", \"any\", a list of cores such as [6, 7], or { cores = one of "
    "these, workers = 1 to 256 or \"auto\" }";
constexpr std::string_view kBoolean = "true or false";
constexpr std::string_view kText = "a string";
constexpr std::string_view kSize = "a size such as \"512MiB\", or bytes";
constexpr std::string_view kThroughput =
    "bytes per second, or a rate such as \"2.5GiB/s\"; 0: measured";

constexpr std::array<ConfigKey, 40> kKeys = {{
    {"placement.storage_reader", kOneWorker,
     [](Config& c, const node& v) {
       return assign_placement(c.placement.storage_reader, v, false);
     }},
    {"placement.storage_writer", kOneWorker,
     [](Config& c, const node& v) {
       return assign_placement(c.placement.storage_writer, v, false);
     }},
    {"placement.decompressor", kSeveralWorkers,
     [](Config& c, const node& v) { return assign_placement(c.placement.decompressor, v, true); }},
    {"placement.compressor", kSeveralWorkers,
     [](Config& c, const node& v) { return assign_placement(c.placement.compressor, v, true); }},
    {"placement.allocator", kSeveralWorkers,
     [](Config& c, const node& v) { return assign_placement(c.placement.allocator, v, true); }},
    {"placement.prefill", kOneWorker,
     [](Config& c, const node& v) { return assign_placement(c.placement.prefill, v, false); }},

    {"memory.codec", kCodecs,
     [](Config& c, const node& v) { return assign_codec(c.memory.codec, v); }},
    {"memory.storage_codec", kCodecs,
     [](Config& c, const node& v) { return assign_codec(c.memory.storage_codec, v); }},
    {"memory.swap_directory", "the path of a directory", assign_swap_directory},
    {"memory.swap_file_max", kSize,
     [](Config& c, const node& v) { return assign_size(c.memory.swap_file_max, v); }},
    {"memory.memory_swap_max", "a share of the KV cache from \"0%\" to \"100%\", or a size",
     assign_memory_swap_max},
    {"memory.keep_compressed", kSize, assign_keep_compressed},
    {"memory.compressed_attention", kBoolean,
     [](Config& c, const node& v) { return assign_bool(c.memory.compressed_attention, v); }},
    {"memory.free_out_of_window", kBoolean,
     [](Config& c, const node& v) { return assign_bool(c.memory.free_out_of_window, v); }},
    {"memory.huge_pages", kBoolean,
     [](Config& c, const node& v) { return assign_bool(c.memory.huge_pages, v); }},

    {"policy.order", "\"backward-out\", \"forward-out\", \"random-out\" or \"optimal\"",
     [](Config& c, const node& v) {
       return assign_choice(c.policy.order, v,
                            {"backward-out", "forward-out", "random-out", "optimal"});
     }},
    {"policy.seed", "an integer from 0",
     [](Config& c, const node& v) {
       return assign_integer(c.policy.seed, v, 0, std::numeric_limits<std::int64_t>::max());
     }},
    {"policy.paths", "\"hybrid\", \"memory\" or \"storage\"",
     [](Config& c, const node& v) {
       return assign_choice(c.policy.paths, v, {"hybrid", "memory", "storage"});
     }},
    {"policy.recompute", kBoolean,
     [](Config& c, const node& v) { return assign_bool(c.policy.recompute, v); }},
    {"policy.cpu_price", "\"auto\" or a number from 0", assign_cpu_price},
    {"policy.resume_delay", "a time such as \"2s\" or \"500ms\", at most a day",
     assign_resume_delay},

    {"overlap.allocation", kBoolean,
     [](Config& c, const node& v) { return assign_bool(c.overlap.allocation, v); }},
    {"overlap.reload", kBoolean,
     [](Config& c, const node& v) { return assign_bool(c.overlap.reload, v); }},
    {"overlap.prefill", kBoolean,
     [](Config& c, const node& v) { return assign_bool(c.overlap.prefill, v); }},

    {"storage.block", "a power of two from \"4KiB\" to \"64MiB\"", assign_block},
    {"storage.depth", "an integer from 1 to 1024",
     [](Config& c, const node& v) { return assign_integer(c.storage.depth, v, 1, 1024); }},
    {"storage.direct", kBoolean,
     [](Config& c, const node& v) { return assign_bool(c.storage.direct, v); }},
    {"storage.engine", "\"io_uring\" or \"threads\"",
     [](Config& c, const node& v) {
       return assign_choice(c.storage.engine, v, {"io_uring", "threads"});
     }},
    {"storage.limit", "a rate such as \"400MiB/s\", or \"\" for none", assign_limit},

    {"profile.file", "the path of a file, or \"\" for the cache's own",
     [](Config& c, const node& v) { return assign_text(c.profile.file, v); }},
    {"profile.read_bytes_per_s", kThroughput,
     [](Config& c, const node& v) { return assign_throughput(c.profile.read_bytes_per_s, v); }},
    {"profile.decode_bytes_per_s", kThroughput,
     [](Config& c, const node& v) { return assign_throughput(c.profile.decode_bytes_per_s, v); }},
    {"profile.storage_decode_bytes_per_s", kThroughput,
     [](Config& c, const node& v) {
       return assign_throughput(c.profile.storage_decode_bytes_per_s, v);
     }},
    {"profile.allocate_bytes_per_s", kThroughput,
     [](Config& c, const node& v) { return assign_throughput(c.profile.allocate_bytes_per_s, v); }},
    {"profile.prefill_tokens_per_s", "a number from 0",
     [](Config& c, const node& v) { return assign_rate(c.profile.prefill_tokens_per_s, v); }},

    {"device.name", kText, [](Config& c, const node& v) { return assign_text(c.device.name, v); }},
    {"device.kernels", "\"auto\", \"portable\" or \"cpu\"",
     [](Config& c, const node& v) {
       return assign_choice(c.device.kernels, v, {"auto", "portable", "cpu"});
     }},
    {"device.pin_workers", "\"auto\", true or false", assign_pin_workers},
    {"device.activations", "\"auto\", \"float\" or \"int8\"",
     [](Config& c, const node& v) {
       return assign_choice(c.device.activations, v, {"auto", "float", "int8"});
     }},

    {"trace.file", kText, [](Config& c, const node& v) { return assign_text(c.trace.file, v); }},
}};

std::string_view section_of(std::string_view path) { return path.substr(0, path.find('.')); }

}  // namespace

const ConfigKey* find_config_key(std::string_view path) {
  for (const ConfigKey& key : kKeys) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

bool is_config_section(std::string_view name) {
  for (const ConfigKey& key : kKeys) {
    if (section_of(key.path) == name) return true;
  }
  return false;
}

std::string known_config_keys(std::string_view section) {
  const bool sections = !is_config_section(section);
  std::string list;
  std::string_view last;
  for (const ConfigKey& key : kKeys) {
    const std::string_view own = section_of(key.path);
    if (sections ? own == last : own != section) continue;
    last = own;
    if (!list.empty()) list += ", ";
    list += sections ? own : key.path;
  }
  return list;
}

}  // namespace mzcache::engine
