#include "engine/wiring_options.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace mzcache::engine {
namespace {

actors::CoreClass core_class(const std::string& name) {
  if (name == "big") return actors::CoreClass::kBig;
  if (name == "middle") return actors::CoreClass::kMiddle;
  if (name == "little") return actors::CoreClass::kLittle;
  return actors::CoreClass::kAny;
}

EvictionOrder to_order(const std::string& name) {
  if (name == "forward-out") return EvictionOrder::kForwardOut;
  if (name == "random-out") return EvictionOrder::kRandomOut;
  if (name == "optimal") return EvictionOrder::kOptimal;
  return EvictionOrder::kBackwardOut;
}

EvictionPaths to_paths(const std::string& name) {
  if (name == "memory") return EvictionPaths::kMemory;
  if (name == "storage") return EvictionPaths::kStorage;
  return EvictionPaths::kHybrid;
}

}  // namespace

actors::Placement to_placement(const Config::Placement& config) {
  using actors::ActorKind;
  const std::array<std::pair<ActorKind, const PlacementConfig*>, 6> kinds{{
      {ActorKind::kStorageReader, &config.storage_reader},
      {ActorKind::kStorageWriter, &config.storage_writer},
      {ActorKind::kDecompressor, &config.decompressor},
      {ActorKind::kCompressor, &config.compressor},
      {ActorKind::kAllocator, &config.allocator},
      {ActorKind::kPrefill, &config.prefill},
  }};
  actors::Placement placement;
  for (const auto& [kind, rule] : kinds) {
    placement[kind] = {core_class(rule->cores), rule->core_ids, rule->workers};
  }
  return placement;
}

std::uint32_t worker_count(const actors::Placement& placement, actors::ActorKind kind) {
  return std::max(1U, placement[kind].workers);  // auto: one, as measured on two cores
}

PlannerOptions to_planner_options(const Config& config, const gpu::DeviceInfo& device) {
  PlannerOptions options;
  options.order = to_order(config.policy.order);
  options.paths = to_paths(config.policy.paths);
  options.seed = config.policy.seed;
  options.cpu_price = config.policy.cpu_price >= 0 ? config.policy.cpu_price
                      : device.cpu                 ? 1.0
                                                   : 0.0;
  options.cores = std::max(1U, device.compute_units);
  options.memory_closed = config.memory.codec == "none";
  options.recompute = config.policy.recompute;
  return options;
}

io::StorageOptions to_storage_options(const Config& config, const NoticeSink& notice) {
  io::StorageOptions options;
  options.block = config.storage.block;
  options.depth = config.storage.depth;
  options.direct = config.storage.direct;
  options.engine = config.storage.engine;
  options.limit_bytes_per_s = config.storage.limit_bytes_per_s;
  options.swap_directory = config.memory.swap_directory;
  options.swap_bytes_max = config.memory.swap_file_max;
  options.notice = [notice](const std::string& line) {
    if (notice) notice(line);
  };
  return options;
}

gpu::DeviceOptions to_device_options(const Config& config) {
  gpu::DeviceOptions options;
  options.name = config.device.name;
  options.kernels = config.device.kernels;
  options.pin_workers = config.device.pin_workers;
  return options;
}

Result<bool> activations_int8(const Config& config, const gpu::DeviceInfo& device) {
  const bool possible = device.kernels == "cpu";
  if (config.device.activations == "int8" && !possible) {
    return Error{ErrorCode::kUnsupported, 0, "device.activations",
                 "\"int8\" needs the cpu kernels, and " + device.name + " gets the " +
                     device.kernels + " ones",
                 "device.activations"};
  }
  return possible && config.device.activations != "float";
}

Result<void> check_compressed_attention(const Config& config, const gpu::DeviceInfo& device) {
  if (!config.memory.compressed_attention) return {};
  const auto no = [](std::string why) -> Result<void> {
    return Error{ErrorCode::kUnsupported, 0, "memory.compressed_attention", std::move(why),
                 "memory.compressed_attention"};
  };
  if (config.memory.codec != "q8") {
    return no("needs memory.codec = \"q8\", which is \"" + config.memory.codec + "\"");
  }
  if (device.kernels == "cpu" && device.mode == gpu::MemoryMode::kHostMapping) return {};
  return no("needs the cpu kernels, and " + device.name + " gets the " + device.kernels + " ones");
}

gpu::UnitSizes unit_sizes(const actors::ModelDescription& model) {
  gpu::UnitSizes sizes;
  for (const auto& layer : model.layer) sizes.weights_bytes.push_back(layer.unit_bytes);
  sizes.head_bytes = model.head.unit_bytes;
  sizes.chunk_bytes = model.chunk_bytes();
  return sizes;
}

}  // namespace mzcache::engine
