#include "commands/simulate_this.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "codec/registry.h"
#include "commands/machine_probe.h"
#include "engine/wiring_options.h"
#include "gpu/device.h"
#include "gpu/roofline.h"
#include "mzcache/profile.h"

namespace mzcache::tools {
namespace {

// Of one small request of a device that is idle otherwise; the rates hold the rest.
constexpr double kStorageLatency = 100e-6;

void say(std::string_view notice) {
  std::fprintf(stderr, "mzcache: %.*s\n", static_cast<int>(notice.size()), notice.data());
}

// Simulated chunks are as small as those of q8.
void check_codec(const Config& config) {
  if (config.memory.codec == "q8") return;
  throw Exception({ErrorCode::kUnsupported, 0, "simulate --machine this",
                   "memory.codec is \"" + config.memory.codec + "\", want \"q8\""});
}

// All but the device.
sim::MachineModel machine_of(const Config& config, const gpu::DeviceInfo& device,
                             const ProfileReport& profile) {
  using actors::ActorKind;
  const actors::Placement placement = engine::to_placement(config.placement);
  sim::MachineModel machine;
  machine.name = "this";
  machine.workers = {engine::worker_count(placement, ActorKind::kAllocator),
                     engine::worker_count(placement, ActorKind::kDecompressor),
                     engine::worker_count(placement, ActorKind::kCompressor)};
  machine.policy = engine::to_planner_options(config, device);
  sim::MachineOptions& options = machine.options;
  options.content = false;
  options.read_bytes_per_s = profile.model_read_bytes_per_s;
  options.swap_read_bytes_per_s = profile.swap_read_bytes_per_s;
  options.write_bytes_per_s = profile.write_bytes_per_s > 0 ? profile.write_bytes_per_s
                                                            : profile.alone.read_bytes_per_s / 2;
  options.storage_latency = actors::Nanoseconds(static_cast<std::int64_t>(kStorageLatency * 1e9));
  options.allocate_bytes_per_s = profile.alone.allocate_bytes_per_s / machine.workers.allocators;
  options.decode_bytes_per_s = profile.alone.decode_bytes_per_s / machine.workers.decompressors;
  options.encode_bytes_per_s = profile.encode_bytes_per_s > 0
                                   ? profile.encode_bytes_per_s / machine.workers.compressors
                                   : options.decode_bytes_per_s / 2;
  options.decode_cpu_s_per_byte = profile.decode_cpu_s_per_byte;
  options.depth = config.storage.depth;
  options.block_bytes = config.storage.block;
  if (device.cpu) {
    // One core less for the device: what holds where nothing was measured.
    const double left = 1 - 1.0 / std::max(1U, device.compute_units);
    options.contention.allocate.device = options.contention.decode.device = left;
  }
  return machine;
}

// What the codec usually leaves of a chunk, and how fast it is. Encoding takes longer as decoding
// does: nothing is measured of it, and no first token waits for it.
void use_storage_codec(const Config& config, const actors::ModelDescription& model,
                       const ProfileReport& profile, sim::MachineModel& machine) {
  if (config.memory.storage_codec == "none") return;
  sim::MachineOptions& options = machine.options;
  const auto codec = value_or_throw(codec::make_codec(config.memory.storage_codec));
  options.storage_codec = true;
  options.stored_share =
      static_cast<double>(codec->typical_bytes(model.chunk_layout(), model.chunk_tokens)) /
      static_cast<double>(model.chunk_bytes());
  const double rate = profile.storage_decode_bytes_per_s;
  options.storage_decode_bytes_per_s =
      rate > 0 ? rate / machine.workers.decompressors : options.decode_bytes_per_s;
  options.storage_encode_bytes_per_s =
      options.encode_bytes_per_s * options.storage_decode_bytes_per_s / options.decode_bytes_per_s;
}

Json parameters_of(const sim::MachineModel& machine) {
  const sim::MachineOptions& options = machine.options;
  return {{"name", machine.name},
          {"simulated", true},
          {"model_read_bytes_per_s", options.read_bytes_per_s},
          {"swap_read_bytes_per_s", options.swap_read_bytes_per_s},
          {"write_bytes_per_s", options.write_bytes_per_s},
          {"storage_latency_ms", static_cast<double>(options.storage_latency.count()) * 1e-6},
          {"allocate_bytes_per_s", options.allocate_bytes_per_s},
          {"decode_bytes_per_s", options.decode_bytes_per_s},
          {"encode_bytes_per_s", options.encode_bytes_per_s},
          {"decode_cpu_s_per_byte", options.decode_cpu_s_per_byte},
          {"device_weights_bytes_per_s", options.device_bytes_per_s},
          {"device_kv_bytes_per_s", options.device_kv_bytes_per_s},
          {"stored_share", options.storage_codec ? options.stored_share : 1.0},
          {"storage_decode_bytes_per_s",
           options.storage_codec ? options.storage_decode_bytes_per_s : 0.0},
          {"allocate_beside_device", options.contention.allocate.stage},
          {"decode_beside_device", options.contention.decode.stage},
          {"read_beside_device", options.contention.read.stage},
          {"device_beside_allocation", options.contention.allocate.device},
          {"device_beside_decoding", options.contention.decode.device},
          {"device_beside_reading", options.contention.read.device},
          {"cpu_price", machine.policy.cpu_price},
          {"allocators", machine.workers.allocators},
          {"decompressors", machine.workers.decompressors},
          {"compressors", machine.workers.compressors}};
}

void add_probe(ThisMachine& made, const MachineProbe& probe, const gpu::DeviceInfo& device) {
  const auto ms = [](actors::Nanoseconds time) { return static_cast<double>(time.count()) * 1e-6; };
  Json& parameters = made.parameters;
  parameters.erase("device_weights_bytes_per_s");
  parameters["device_on_cores"] = device.cpu;
  parameters["device_project_s_per_byte"] = probe.device.project_s_per_byte;
  parameters["device_attend_s_per_byte"] = probe.device.attend_s_per_byte;
  parameters["device_head_s_per_byte"] = probe.device.head_s_per_byte;
  parameters["launch_ms"] = ms(probe.device.launch);
  parameters["turn_ms"] = ms(probe.turn);
  parameters["slice_ms"] = probe.slice_ms;
  parameters["slice_gathered_ms"] = probe.slice_gathered_ms;
  parameters["slice_after_context_ms"] = probe.slice_after_context_ms;
  parameters["planned_model_read_bytes_per_s"] = probe.plan_profile.model_read_bytes_per_s;
  parameters["planned_swap_read_bytes_per_s"] = probe.plan_profile.swap_read_bytes_per_s;
  parameters["planned_decode_bytes_per_s"] = probe.plan_profile.decode_bytes_per_s;
}

}  // namespace

ThisMachine this_machine_with_file(const Config& config, const std::string& file,
                                   std::uint32_t context_tokens, std::uint32_t prompt_tokens) {
  check_codec(config);
  const ProfileReport profile = measure_profile(config, file, false, say);
  const gpu::DeviceInfo device =
      value_or_throw(gpu::Device::open(engine::to_device_options(config)))->info();
  ThisMachine made;
  made.machine = machine_of(config, device, profile);
  MachineProbe probe = probe_machine(config, file, context_tokens, prompt_tokens);
  made.model = std::move(probe.model);
  use_storage_codec(config, made.model, profile, made.machine);
  sim::MachineOptions& options = made.machine.options;
  options.plan_profile = probe.plan_profile;
  options.read_bytes_per_s = probe.model_read_bytes_per_s;
  if (probe.swap_read_bytes_per_s > 0) options.swap_read_bytes_per_s = probe.swap_read_bytes_per_s;
  if (probe.decode_bytes_per_s > 0) options.decode_bytes_per_s = probe.decode_bytes_per_s;
  options.allocate_bytes_per_s = probe.allocate_bytes_per_s;
  options.storage_latency = probe.storage_latency;
  options.contention = probe.contention;
  options.device_times = probe.device;
  options.device_kv_bytes_per_s = probe.device_kv_bytes_per_s;
  options.turn_time = probe.turn;
  made.parameters = parameters_of(made.machine);
  add_probe(made, probe, device);
  return made;
}

ThisMachine this_machine_with_shape(const Config& config, const actors::ModelDescription& model,
                                    std::uint32_t prompt_tokens) {
  check_codec(config);
  const ProfileReport profile = measure_profile(config, "", false, say);
  const auto device = value_or_throw(gpu::Device::open(engine::to_device_options(config)));
  const gpu::Roofline roofline = value_or_throw(gpu::measure_roofline(*device));
  ThisMachine made;
  made.model = model;
  made.machine = machine_of(config, device->info(), profile);
  use_storage_codec(config, model, profile, made.machine);
  // Values of two bytes, each multiplied and added once a token; keys and values once a head.
  const double token_rate = roofline.operations_per_s / prompt_tokens;
  sim::MachineOptions& options = made.machine.options;
  options.device_bytes_per_s = std::min(roofline.read_bytes_per_s, token_rate);
  options.device_kv_bytes_per_s =
      std::min(roofline.read_bytes_per_s, token_rate * model.kv_heads / std::max(1U, model.heads));
  made.parameters = parameters_of(made.machine);
  made.parameters["roofline_operations_per_s"] = roofline.operations_per_s;
  made.parameters["roofline_read_bytes_per_s"] = roofline.read_bytes_per_s;
  return made;
}

}  // namespace mzcache::tools
