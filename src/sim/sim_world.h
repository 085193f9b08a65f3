// A whole machine in one process under a virtual clock: simulated memory, storage, compute device
// and codec behind the ports, with seeded faults. The actors and the coordinator are the real ones.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/kv_shape.h"
#include "actors/sim_dispatcher.h"
#include "engine/engine_state.h"
#include "engine/pipeline.h"
#include "sim/shared_cores.h"

namespace mzcache::sim {

// What a slice takes on the device, apart from the context's KV.
struct DeviceTimes {
  double project_s_per_byte = 0;  // of a layer's weights
  double attend_s_per_byte = 0;   // the same
  double head_s_per_byte = 0;     // of the head's
  // Of each stage that is launched by itself. Where all is resident, all stages are launched as one
  // piece, and this is saved.
  actors::Nanoseconds launch{0};
};

// Bytes of KV that a slice reads in a layer from `position` on, in whole chunks.
[[nodiscard]] std::uint64_t kv_bytes_read(const actors::ModelDescription& model,
                                          std::uint32_t layer, std::uint32_t position);

// How fast the simulated devices are, and how often they fail. Probabilities per operation.
struct MachineOptions {
  double read_bytes_per_s = 2e9;
  double swap_read_bytes_per_s = 0;  // of the swap file, where it is another; else 0
  double write_bytes_per_s = 6e8;
  actors::Nanoseconds storage_latency{80'000};
  double allocate_bytes_per_s = 2e10;
  double decode_bytes_per_s = 6e9;
  double encode_bytes_per_s = 3e9;
  // Whether there is a codec for storage, what it leaves of a row, and its rates.
  bool storage_codec = false;
  double stored_share = 0.2;
  double storage_decode_bytes_per_s = 2e9;
  double storage_encode_bytes_per_s = 1e9;
  actors::Nanoseconds layer_time{300'000};  // the device, per layer and slice
  // Where not 0, the device's time follows from the bytes it reads instead: weights, and the
  // context's KV in a layer, per second.
  double device_bytes_per_s = 0;
  double device_kv_bytes_per_s = 0;  // of the context's KV, where it is another; else 0
  // Where measured, of the stages apart; the context's KV comes on top.
  std::optional<DeviceTimes> device_times;
  actors::Nanoseconds turn_time{0};  // of a slice, beside what the device does
  Contention contention;             // of a device that computes on the processor's cores
  double decode_cpu_s_per_byte = 0;  // as the profile has it
  // What evictions are planned with, where that is not the rates above.
  std::optional<engine::RestoreProfile> plan_profile;
  // False: units have sizes but no content, for models of real size; answers mean nothing then.
  bool content = true;
  std::uint32_t depth = 8;
  std::uint64_t block_bytes = 8192;

  double read_error = 0;  // EIO, on the swap file only
  double model_read_error = 0;
  double write_error = 0;  // EIO
  double short_transfer = 0;
  double busy = 0;          // EAGAIN
  double no_space = 0;      // growing the swap file fails
  double no_memory = 0;     // populating fails
  double encode_error = 0;  // the codec for storage fails
  double bit_flip = 0;      // a read from the swap file returns different bytes
};

// A model so small that thousands of conversations run in a second. Its answer depends on every
// byte of every unit and of the whole context.
struct ModelOptions {
  std::uint32_t layers = 3;
  std::uint32_t chunk_tokens = 4;
  std::uint32_t layer_blocks = 3;  // 4 KiB blocks of weights per layer
  std::uint32_t head_blocks = 2;
  std::uint32_t vocabulary = 97;
  std::uint32_t window = 0;  // tokens that every second layer, from the first on, looks back
};
[[nodiscard]] actors::ModelDescription describe(const ModelOptions& options);

class SimMemory;
class SimStorage;
class SimCompute;
class SimCodec;

// The engine's timer on the virtual clock.
class SimTimer final : public engine::Timer {
 public:
  explicit SimTimer(actors::SimDispatcher& dispatcher) : dispatcher_(dispatcher) {}
  void after(actors::Nanoseconds delay, std::function<void()> call) override {
    dispatcher_.at(dispatcher_.now() + delay, std::move(call));
  }

 private:
  actors::SimDispatcher& dispatcher_;
};

// Everything wired up. Build it, open a context, post requests to `coordinator()`, run the
// dispatcher.
class World {
 public:
  World(std::uint64_t seed, const ModelOptions& model, const MachineOptions& machine,
        const engine::EngineOptions& engine_options, const engine::WorkerCounts& workers,
        engine::PlannerOptions policy = {});
  // Any model and policy.
  World(std::uint64_t seed, actors::ModelDescription model, const MachineOptions& machine,
        const engine::EngineOptions& engine_options, const engine::WorkerCounts& workers,
        std::unique_ptr<engine::EvictionPlanner> planner);
  ~World();
  // A context of so many tokens, all resident, as if it had been computed. The coordinator has
  // opened the context and is idle.
  void plant_context(std::uint32_t context, std::uint32_t tokens);

  [[nodiscard]] actors::SimDispatcher& dispatcher() noexcept { return dispatcher_; }
  [[nodiscard]] actors::Address<engine::Coordinator::Inbox>& coordinator() noexcept {
    return *coordinator_.address;
  }
  [[nodiscard]] engine::EngineState& state() noexcept { return *state_; }
  // Speeds and faults may change while the world runs.
  [[nodiscard]] MachineOptions& machine() noexcept { return machine_; }
  [[nodiscard]] SimMemory& memory() noexcept { return *memory_; }
  // The token the model says after these, computed without any of the machinery.
  [[nodiscard]] Token expected(std::span<const Token> tokens) const;
  // Records nothing until it is enabled.
  [[nodiscard]] actors::Timeline& timeline() noexcept { return timeline_; }
  // What must hold whenever nothing is under way; empty where it does, else what is wrong.
  [[nodiscard]] std::string check_quiet() const;

 private:
  actors::Timeline timeline_;
  std::unique_ptr<SimMemory> memory_;  // outlives the actors, whose staging is its own
  actors::SimDispatcher dispatcher_;
  SimTimer timer_{dispatcher_};
  actors::ModelDescription model_;
  MachineOptions machine_;
  SharedCores cores_;
  actors::KvShape shape_;
  std::unique_ptr<SimCodec> codec_;
  std::unique_ptr<SimCodec> storage_codec_;
  std::unique_ptr<SimStorage> reads_;
  std::unique_ptr<SimStorage> writes_;
  std::unique_ptr<SimCompute> compute_;
  std::unique_ptr<engine::EvictionPlanner> planner_;
  std::unique_ptr<engine::EngineState> state_;
  actors::Ref<engine::Coordinator> coordinator_;
  mutable std::vector<std::uint64_t> layer_digests_;  // of the reference
  mutable std::uint64_t head_digest_ = 0;
};

}  // namespace mzcache::sim
