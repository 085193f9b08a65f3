// Where actors run: core classes from the system's description, and the config's placement keys.
// Pure: reads a sysfs tree below a root given to it (tests use fake ones).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/actor.h"

namespace mzcache::actors {

enum class CoreClass : std::uint8_t { kBig, kMiddle, kLittle, kAny };

struct Core {
  std::uint32_t id = 0;
  CoreClass core_class = CoreClass::kAny;
  std::uint64_t capacity = 0;  // cpu_capacity, else maximum frequency in kHz, else 0
};

struct CpuTopology {
  std::vector<Core> cores;  // online ones this process may use
  // Ids of a class; kAny: all. Falls back to the nearest class that has cores.
  [[nodiscard]] std::vector<std::uint32_t> ids(CoreClass core_class) const;
};

// Reads <root>/sys/devices/system/cpu: `online`, cpuN/cpu_capacity, else
// cpuN/cpufreq/cpuinfo_max_freq, else every core is kAny. Two capacities: big, little; three or
// more: big (highest), little (lowest), middle (between).
[[nodiscard]] Result<CpuTopology> read_topology(const std::string& root);
// The machine's own, restricted to the process's affinity (implemented in the threaded dispatcher).
[[nodiscard]] Result<CpuTopology> this_topology();

// One placement key of the config.
struct PlacementRule {
  CoreClass core_class = CoreClass::kAny;
  std::vector<std::uint32_t> cores;  // explicit ids win over the class
  std::uint32_t workers = 0;         // 0: auto
};

struct Placement {
  std::array<PlacementRule, 7> rules;  // by ActorKind
  [[nodiscard]] const PlacementRule& operator[](ActorKind kind) const {
    return rules[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] PlacementRule& operator[](ActorKind kind) {
    return rules[static_cast<std::size_t>(kind)];
  }
};
// The config key of a kind: "storage_reader".
[[nodiscard]] std::string_view placement_key(ActorKind kind) noexcept;
// Core ids for a kind. kBadConfig names the key where an explicit core is not there.
[[nodiscard]] Result<std::vector<std::uint32_t>> resolve(const Placement& placement, ActorKind kind,
                                                         const CpuTopology& topology);

}  // namespace mzcache::actors
