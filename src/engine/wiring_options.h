// The configuration's words as the options of the rooms.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "actors/model_description.h"
#include "actors/placement.h"
#include "engine/planner.h"
#include "gpu/unit_memory.h"
#include "io/storage.h"
#include "mzcache/config.h"

namespace mzcache::engine {

// Gets one line for people whenever something falls back.
using NoticeSink = std::function<void(std::string_view)>;

[[nodiscard]] actors::Placement to_placement(const Config::Placement& config);
// Workers of a kind; "auto" resolved.
[[nodiscard]] std::uint32_t worker_count(const actors::Placement& placement,
                                         actors::ActorKind kind);
[[nodiscard]] PlannerOptions to_planner_options(const Config& config,
                                                const gpu::DeviceInfo& device);
[[nodiscard]] io::StorageOptions to_storage_options(const Config& config, const NoticeSink& notice);
[[nodiscard]] gpu::DeviceOptions to_device_options(const Config& config);
// Whether quantised weights meet activations of 8 bits. kUnsupported where they cannot and the
// configuration insists.
[[nodiscard]] Result<bool> activations_int8(const Config& config, const gpu::DeviceInfo& device);
// kUnsupported where memory.compressed_attention is on and codec or device cannot.
[[nodiscard]] Result<void> check_compressed_attention(const Config& config,
                                                      const gpu::DeviceInfo& device);
[[nodiscard]] gpu::UnitSizes unit_sizes(const actors::ModelDescription& model);

}  // namespace mzcache::engine
