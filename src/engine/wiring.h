// The wiring: a model on real devices. The only place that names io, gpu and codec.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/kv_shape.h"
#include "actors/threaded_dispatcher.h"
#include "codec/registry.h"
#include "engine/coordinator.h"
#include "engine/engine_state.h"
#include "engine/gguf.h"
#include "engine/wiring_options.h"
#include "engine/wiring_profile.h"
#include "engine/wiring_timer.h"
#include "gpu/compute_queue.h"
#include "io/storage.h"
#include "mzcache/config.h"
#include "mzcache/model_info.h"

namespace mzcache::engine {

class Wiring {
 public:
  // Opens the device, reserves addresses, starts the actors. Nothing of the weights is read.
  [[nodiscard]] static Result<std::unique_ptr<Wiring>> create(const GgufFile& file,
                                                              const Config& config,
                                                              const NoticeSink& notice,
                                                              actors::Timeline& timeline);
  // Every request must have been answered (see Shutdown).
  ~Wiring();
  Wiring(const Wiring&) = delete;
  Wiring& operator=(const Wiring&) = delete;

  [[nodiscard]] actors::Address<Coordinator::Inbox>& coordinator() noexcept {
    return *coordinator_.address;
  }
  // Only on the coordinator's thread.
  [[nodiscard]] const Coordinator& coordinator_actor() const noexcept {
    return *coordinator_.actor;
  }
  [[nodiscard]] const actors::ModelDescription& model() const noexcept { return model_; }
  [[nodiscard]] const DeviceSummary& device() const noexcept { return device_summary_; }
  [[nodiscard]] std::uint64_t scratch_bytes() const noexcept { return queue_->scratch_bytes(); }
  // Live as long as this.
  [[nodiscard]] actors::TierCodecs codecs() const noexcept {
    return {codec_.get(), storage_codec_.get()};
  }
  [[nodiscard]] const actors::Clock& clock() const noexcept { return dispatcher_->clock(); }
  // The open files, for another device on them (benchmarks).
  [[nodiscard]] const std::shared_ptr<io::StorageFiles>& files() const noexcept { return files_; }

 private:
  Wiring() = default;
  [[nodiscard]] Result<void> make_codecs(const Config& config);
  [[nodiscard]] Result<void> open_device(const Config& config, const NoticeSink& notice);
  [[nodiscard]] gpu::PendingKernels load_kernels(bool int8, const NoticeSink& notice);
  [[nodiscard]] Result<void> open_storage(const Config& config, const NoticeSink& notice);
  // From its file, or measured. Never fails: plans can be made with assumed rates.
  void know_profile(const Config& config, const NoticeSink& notice);
  [[nodiscard]] Result<void> start(const Config& config, actors::Timeline& timeline,
                                   const NoticeSink& notice);

  actors::ModelDescription model_;
  actors::KvShape shape_;
  DeviceSummary device_summary_;
  std::unique_ptr<gpu::Device> device_;
  gpu::PendingKernels kernels_;  // waits, when it goes, for what still compiles
  std::unique_ptr<gpu::UnitMemory> memory_;
  std::unique_ptr<actors::ComputeQueue> queue_;
  std::shared_ptr<io::StorageFiles> files_;
  std::unique_ptr<actors::BlockDevice> reads_;
  std::unique_ptr<actors::BlockDevice> writes_;
  std::shared_ptr<const actors::KvCodec> codec_;
  std::shared_ptr<const actors::KvCodec> storage_codec_;  // null: chunks are stored raw
  std::unique_ptr<SliceObserver> observer_;
  std::unique_ptr<EvictionPlanner> planner_;
  ObtainedProfile kept_profile_;
  std::unique_ptr<EngineState> state_;
  std::unique_ptr<actors::ThreadedDispatcher> dispatcher_;  // joined first
  actors::Ref<Coordinator> coordinator_;
  std::unique_ptr<ThreadTimer> timer_;  // silent before the actors go
};

[[nodiscard]] DeviceSummary summarize_device(const gpu::DeviceInfo& info);

}  // namespace mzcache::engine
