// What the coordinator's concerns (restoring, evicting, generating) share: the model, the maps of
// what is where, and the ports to the pipeline. One owner thread: the coordinator's.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "actors/actor.h"
#include "actors/messages.h"
#include "actors/model_description.h"
#include "engine/kv_cache.h"
#include "engine/memory_swap.h"
#include "engine/planner.h"
#include "engine/rate_history.h"
#include "engine/residency.h"
#include "engine/swap_slots.h"

namespace mzcache::engine {

struct EngineOptions {
  std::uint64_t swap_file_max = std::uint64_t{8} << 30;
  // Share of the KV cache that compressed chunks may take, percent; or bytes where not 0.
  double memory_swap_max_percent = 100;
  std::uint64_t memory_swap_max_bytes = 0;
  std::uint64_t swap_range_bytes = std::uint64_t{1} << 30;  // addresses reserved for the swap
  std::uint64_t restore_bytes_in_flight = std::uint64_t{64} << 20;
  std::uint64_t restore_run_bytes = std::uint64_t{8} << 20;  // neighbours allocated at once
  std::uint32_t slice_tokens_max = 512;
  std::uint32_t allocators = 1;  // workers whose busy times a restore's report adds up
  std::uint32_t decompressors = 1;
  bool memory_closed = false;  // codec "none": nothing goes to the in-memory swap
  // Stages that do not overlap (the evaluation compares): all memory before the first read, all
  // units before the first layer.
  bool allocate_first = false;
  bool compute_last = false;
  // Layers are launched one by one even where everything is resident, as during a restore.
  bool separate_launches = false;
  // Full chunks in the in-memory swap are read there by attention, where codec and device can.
  bool compressed_attention = false;
  std::uint64_t keep_compressed = 0;  // bytes of encoded forms kept beside resident chunks
  // Chunks behind every window are freed at once; else not before memory is asked for.
  bool free_out_of_window = true;
  actors::Nanoseconds resume_delay{2'000'000'000};
};

// Calls back once, later, on any thread; what it calls only posts a message.
class Timer {
 public:
  virtual ~Timer() = default;
  virtual void after(actors::Nanoseconds delay, std::function<void()> call) = 0;
};

struct PipelinePorts {
  std::vector<actors::Port<actors::AllocateUnits>> allocate;  // one per allocator
  std::vector<actors::Port<actors::ReleaseUnits>> release;
  actors::Port<actors::ReadRows> read_rows;
  actors::Port<actors::ReadUnit> read_unit;  // only for units that were allocated first
  std::vector<actors::Port<actors::DecodeChunk>> decode;  // the same
  std::vector<actors::Port<actors::AllocateUnits>> decode_run;
  std::vector<actors::Port<actors::CompressChunk>> compress;
  actors::Port<actors::WriteChunk> write;
  actors::Port<actors::WritesOver> writes_over;
  actors::Port<actors::ComputeTokens> compute;
  actors::Port<actors::LayerReady> layer_ready;
  actors::Port<actors::StopCompute> stop_compute;
  actors::Port<actors::ReleaseScratch> release_scratch;
};

// Is told of every slice that was computed, on the coordinator's thread, while the device is at
// rest.
class SliceObserver {
 public:
  virtual ~SliceObserver() = default;
  virtual void computed(std::uint32_t context, std::uint32_t first_position,
                        std::uint32_t token_count) noexcept = 0;
};

struct EngineState {
  EngineState(const actors::ModelDescription& description, actors::SharedMemory& shared,
              const actors::TierCodecs& kv_codecs, const EvictionPlanner& eviction_planner,
              const RestoreProfile& restore_profile, const actors::Clock& engine_clock,
              const EngineOptions& engine_options)
      : model(description),
        memory(shared),
        codecs(kv_codecs),
        planner(&eviction_planner),
        profile(restore_profile),
        rates({restore_profile.model_read_bytes_per_s, restore_profile.swap_read_bytes_per_s,
               restore_profile.decode_bytes_per_s, restore_profile.allocate_bytes_per_s,
               restore_profile.storage_decode_bytes_per_s}),
        clock(engine_clock),
        options(engine_options),
        swap(shared),
        slots(engine_options.swap_file_max),
        residency(description, swap, slots) {}

  const actors::ModelDescription& model;
  actors::SharedMemory& memory;
  const actors::TierCodecs codecs;
  const EvictionPlanner* planner;  // benchmarks change it, while nothing moves
  RestoreProfile profile;
  RateHistory rates;  // what restores achieve, against the profile
  const actors::Clock& clock;
  EngineOptions options;  // the same
  PipelinePorts ports;
  Timer* timer = nullptr;             // outlives the actors
  SliceObserver* observer = nullptr;  // the same; may be null

  KvCache cache;
  MemorySwap swap;
  SwapSlots slots;
  Residency residency;
  std::uint32_t releases_pending = 0;  // ReleaseUnits not yet acknowledged

  // A layer's units always go through the same allocator, which keeps their order.
  [[nodiscard]] std::size_t allocator_of(actors::UnitId unit) const noexcept {
    return unit.layer % ports.allocate.size();
  }
  // Gives the units' memory back; UnitsReleased follows.
  void release(const std::vector<actors::UnitId>& units);
  // The context's chunks end here: memory and forms of the rest are given up.
  void trim_chunks(Context& context, std::uint32_t chunks);
  // Chunks that no position to come looks at are given up, the last layer's first, until `bytes`
  // of them leave memory. Returns how many did.
  std::uint64_t free_unseen(const Context& context, std::uint64_t bytes);
  // The same with all of them, where the options say so.
  void free_unseen(const Context& context);
  // Nothing of the context's KV is left; its tokens are.
  void lose_kv(Context& context);
  // A restore is over: where it and those before it show that the profile is wrong, it follows.
  void learn(const RestoreReport& report);
  [[nodiscard]] std::uint32_t chunk_tokens() const noexcept { return model.chunk_layout().tokens; }
  [[nodiscard]] std::uint64_t memory_swap_budget() const noexcept;
};

}  // namespace mzcache::engine
