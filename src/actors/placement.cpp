#include "actors/placement.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

namespace mzcache::actors {
namespace {

constexpr std::uint32_t kCoreIdMax = 8191;

std::optional<std::string> read_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc{} && end == text.data() + text.size();
}

// "0-3,6" → 0 1 2 3 6. Nothing where the text is not such a list.
std::optional<std::vector<std::uint32_t>> parse_core_list(std::string_view text) {
  std::vector<std::uint32_t> ids;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t dash = item.find('-');
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    if (!parse(item.substr(0, dash), first)) return std::nullopt;
    last = first;
    if (dash != std::string_view::npos && !parse(item.substr(dash + 1), last)) return std::nullopt;
    if (last < first || last > kCoreIdMax) return std::nullopt;
    for (std::uint32_t id = first; id <= last; ++id) ids.push_back(id);
  }
  return ids;
}

Result<std::vector<std::uint32_t>> online_cores(const std::filesystem::path& cpus) {
  const std::filesystem::path path = cpus / "online";
  const auto line = read_line(path);
  if (!line) return Error{ErrorCode::kNotFound, 0, "read core list", path.string()};
  auto ids = parse_core_list(*line);
  if (!ids || ids->empty()) {
    return Error{ErrorCode::kBadFormat, 0, "read core list",
                 path.string() + ": \"" + line->substr(0, 64) +
                     "\" is not a list of core ids up to " + std::to_string(kCoreIdMax)};
  }
  return *std::move(ids);
}

// Fills in one figure for every core; false (and all zero) where a core lacks it.
bool read_capacities(const std::filesystem::path& cpus, const char* file, CpuTopology& topology) {
  for (Core& core : topology.cores) {
    const auto line = read_line(cpus / ("cpu" + std::to_string(core.id)) / file);
    if (!line || !parse(std::string_view(*line), core.capacity)) {
      for (Core& each : topology.cores) each.capacity = 0;
      return false;
    }
  }
  return true;
}

void classify(CpuTopology& topology) {
  std::set<std::uint64_t> capacities;
  for (const Core& core : topology.cores) capacities.insert(core.capacity);
  if (capacities.size() < 2) return;  // all alike: any
  for (Core& core : topology.cores) {
    if (core.capacity == *capacities.rbegin()) {
      core.core_class = CoreClass::kBig;
    } else if (core.capacity == *capacities.begin()) {
      core.core_class = CoreClass::kLittle;
    } else {
      core.core_class = CoreClass::kMiddle;
    }
  }
}

// Where to look for a class, nearest first.
std::array<CoreClass, 3> nearest(CoreClass core_class) {
  switch (core_class) {
    case CoreClass::kMiddle:
      return {CoreClass::kMiddle, CoreClass::kLittle, CoreClass::kBig};
    case CoreClass::kLittle:
      return {CoreClass::kLittle, CoreClass::kMiddle, CoreClass::kBig};
    case CoreClass::kBig:
    case CoreClass::kAny:
      break;
  }
  return {CoreClass::kBig, CoreClass::kMiddle, CoreClass::kLittle};
}

}  // namespace

std::vector<std::uint32_t> CpuTopology::ids(CoreClass core_class) const {
  std::vector<std::uint32_t> found;
  if (core_class != CoreClass::kAny) {
    for (const CoreClass candidate : nearest(core_class)) {
      for (const Core& core : cores) {
        if (core.core_class == candidate) found.push_back(core.id);
      }
      if (!found.empty()) return found;
    }
  }
  std::transform(cores.begin(), cores.end(), std::back_inserter(found),
                 [](const Core& core) { return core.id; });
  return found;
}

Result<CpuTopology> read_topology(const std::string& root) {
  const std::filesystem::path cpus = std::filesystem::path(root + "/sys/devices/system/cpu");
  auto online = online_cores(cpus);
  if (!online) return std::move(online).error();
  CpuTopology topology;
  for (const std::uint32_t id : *online) topology.cores.push_back({id, CoreClass::kAny, 0});
  if (read_capacities(cpus, "cpu_capacity", topology) ||
      read_capacities(cpus, "cpufreq/cpuinfo_max_freq", topology)) {
    classify(topology);
  }
  return topology;
}

std::string_view placement_key(ActorKind kind) noexcept {
  switch (kind) {
    case ActorKind::kCoordinator:
      return "coordinator";
    case ActorKind::kAllocator:
      return "allocator";
    case ActorKind::kStorageReader:
      return "storage_reader";
    case ActorKind::kStorageWriter:
      return "storage_writer";
    case ActorKind::kDecompressor:
      return "decompressor";
    case ActorKind::kCompressor:
      return "compressor";
    case ActorKind::kPrefill:
      return "prefill";
  }
  return "unknown";
}

Result<std::vector<std::uint32_t>> resolve(const Placement& placement, ActorKind kind,
                                           const CpuTopology& topology) {
  const PlacementRule& rule = placement[kind];
  if (rule.cores.empty()) return topology.ids(rule.core_class);
  const std::vector<std::uint32_t> there = topology.ids(CoreClass::kAny);
  for (const std::uint32_t id : rule.cores) {
    if (std::find(there.begin(), there.end(), id) != there.end()) continue;
    std::string usable;
    for (const std::uint32_t each : there) {
      usable += (usable.empty() ? "" : ", ") + std::to_string(each);
    }
    const std::string key = "placement." + std::string(placement_key(kind));
    return Error{ErrorCode::kBadConfig, 0, key,
                 "core " + std::to_string(id) + " is not there (usable: " + usable + ")", key};
  }
  return rule.cores;
}

}  // namespace mzcache::actors
