// This machine measured for the simulated one: every stage of a restore alone, at the size of a
// whole restore, and each beside the computing device.
#pragma once

#include <cstdint>
#include <string>

#include "actors/model_description.h"
#include "engine/planner.h"
#include "mzcache/config.h"
#include "sim/sim_world.h"

namespace mzcache::tools {

struct MachineProbe {
  actors::ModelDescription model;
  engine::RestoreProfile plan_profile;  // what the engine plans evictions with
  double model_read_bytes_per_s = 0;
  double swap_read_bytes_per_s = 0;  // 0: nothing was in the swap file
  double allocate_bytes_per_s = 0;
  double decode_bytes_per_s = 0;  // 0: nothing was to be decoded
  actors::Nanoseconds storage_latency{0};
  sim::Contention contention;
  sim::DeviceTimes device;
  double device_kv_bytes_per_s = 0;
  actors::Nanoseconds turn{0};
  // A question with nothing but itself before it and one behind the context, everything resident,
  // stage by stage and as one piece.
  double slice_ms = 0;
  double slice_gathered_ms = 0;
  double slice_after_context_ms = 0;
};

// Memory is warm: what is populated was in use the moment before. Takes some seconds, the memory of
// the model and of the context, and what of the context is evicted in the swap file. Throws
// Exception.
[[nodiscard]] MachineProbe probe_machine(const Config& config, const std::string& file,
                                         std::uint32_t context_tokens, std::uint32_t prompt_tokens);

}  // namespace mzcache::tools
