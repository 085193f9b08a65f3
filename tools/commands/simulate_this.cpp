#include "commands/simulate_this.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "codec/registry.h"
#include "commands/bench_rig.h"
#include "commands/median.h"
#include "engine/wiring_options.h"
#include "gpu/device.h"
#include "gpu/roofline.h"
#include "mzcache/profile.h"

namespace mzcache::tools {
namespace {

// Runs of a slice; the median counts.
constexpr int kRuns = 5;
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
  options.shared_cores = device.cpu ? std::max(1U, device.compute_units) : 0;
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
          {"shared_cores", options.shared_cores},
          {"cpu_price", machine.policy.cpu_price},
          {"allocators", machine.workers.allocators},
          {"decompressors", machine.workers.decompressors},
          {"compressors", machine.workers.compressors}};
}

double slice_s(ComputeRig& rig, std::uint32_t first, std::uint32_t tokens) {
  std::vector<double> times;
  times.reserve(kRuns);
  static_cast<void>(rig.run_ms(first, tokens));  // the first one warms up
  for (int i = 0; i < kRuns; ++i) times.push_back(rig.run_ms(first, tokens));
  return median(std::move(times)) * 1e-3;
}

// Bytes of KV that a slice behind so many tokens reads.
std::uint64_t kv_bytes(const actors::ModelDescription& model, std::uint32_t tokens) {
  std::uint64_t bytes = 0;
  for (const auto& layer : model.layer) {
    const std::uint32_t chunks = tokens / model.chunk_tokens + 1;
    bytes += (chunks - layer.first_visible(tokens) / model.chunk_tokens) * model.chunk_bytes();
  }
  return bytes;
}

}  // namespace

ThisMachine this_machine_with_file(const Config& config, const std::string& file,
                                   std::uint32_t context_tokens, std::uint32_t prompt_tokens) {
  check_codec(config);
  const ProfileReport profile = measure_profile(config, file, false, say);
  ComputeRig rig(config, file, context_tokens + prompt_tokens);
  ThisMachine made;
  made.model = rig.model();
  made.machine = machine_of(config, rig.device().info(), profile);
  use_storage_codec(config, made.model, profile, made.machine);
  // The simulated device takes a time per byte of weights and per byte of KV. Two slices of the
  // size that will be asked give both.
  const double shallow = slice_s(rig, 0, prompt_tokens);
  const double deep = slice_s(rig, context_tokens, prompt_tokens);
  const auto weights = static_cast<double>(made.model.weights_bytes());
  const auto near = static_cast<double>(kv_bytes(made.model, 0));
  const auto far = static_cast<double>(kv_bytes(made.model, context_tokens));
  sim::MachineOptions& options = made.machine.options;
  // Noise may make the deeper slice the faster one.
  const double per_kv_byte = far > near ? std::max(0.0, deep - shallow) / (far - near) : 0;
  options.device_kv_bytes_per_s = per_kv_byte > 0 ? 1 / per_kv_byte : 1e15;
  options.device_bytes_per_s = weights / std::max(1e-9, shallow - per_kv_byte * near);
  made.parameters = parameters_of(made.machine);
  made.parameters["slice_ms"] = shallow * 1e3;
  made.parameters["slice_after_context_ms"] = deep * 1e3;
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
