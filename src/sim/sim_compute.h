// A simulated compute device: an in-order queue that runs the integer model on the units' real
// bytes when a stage's time has come.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "actors/kv_shape.h"
#include "actors/ports.h"
#include "actors/sim_dispatcher.h"
#include "sim/sim_memory.h"

namespace mzcache::sim {

class SimCompute final : public actors::ComputeQueue {
 public:
  SimCompute(actors::SimDispatcher& dispatcher, SimMemory& memory,
             const actors::ModelDescription& model, const MachineOptions& machine,
             SharedCores& cores)
      : dispatcher_(dispatcher), memory_(memory), model_(model), machine_(machine), cores_(cores) {}

  void set_listener(std::function<void(const actors::ComputeCompletion&)> listener) override {
    listener_ = std::move(listener);
  }
  [[nodiscard]] Result<void> begin_slice(const actors::ComputeSlice& slice) override;
  [[nodiscard]] Result<void> enqueue_layer(std::uint32_t layer, actors::LayerStage stage,
                                           std::uint64_t ticket) override;
  [[nodiscard]] Result<void> enqueue_head(std::uint64_t ticket) override;
  void flush() override {}
  [[nodiscard]] bool takes_whole_slice() const noexcept override { return gathered_; }
  [[nodiscard]] bool reads_encoded() const noexcept override { return true; }
  void request_stop() noexcept override { stop_ = true; }
  void clear_stop() noexcept override;
  [[nodiscard]] std::span<const float> logits(std::size_t row) const override {
    return {logits_.data() + row * model_.vocabulary, model_.vocabulary};
  }
  [[nodiscard]] std::uint64_t scratch_bytes() const noexcept override { return 0; }
  [[nodiscard]] std::uint32_t slice_tokens_max() const noexcept override { return 512; }

 private:
  // In order; the first one is under way.
  struct Work {
    std::function<void()> work;
    actors::Nanoseconds time{0};
    std::uint64_t ticket = 0;
  };

  void enqueue(std::function<void()> work, actors::Nanoseconds time, std::uint64_t ticket);
  void begin_next();
  void end_of_work(actors::Nanoseconds begin);
  void tell_cores();
  void report(const actors::ComputeCompletion& completion);
  // `share` of a layer's time; of its weights, where those count.
  [[nodiscard]] actors::Nanoseconds time_of(std::uint64_t weights_bytes, std::uint64_t kv_bytes,
                                            double share) const;
  [[nodiscard]] actors::Nanoseconds measured_time(double weights_s, std::uint64_t kv_bytes) const;
  [[nodiscard]] actors::Nanoseconds stage_time(std::uint32_t layer, actors::LayerStage stage) const;
  [[nodiscard]] actors::Nanoseconds head_time() const;
  // The seed of a row before the slice, from the chunk's own form.
  [[nodiscard]] std::uint64_t seed_before(std::uint32_t layer, std::uint32_t position);
  void project(std::uint32_t layer);
  void attend(std::uint32_t layer);
  void head();

  actors::SimDispatcher& dispatcher_;
  SimMemory& memory_;
  const actors::ModelDescription& model_;
  const MachineOptions& machine_;
  SharedCores& cores_;
  std::function<void(const actors::ComputeCompletion&)> listener_;
  actors::ComputeSlice slice_;
  std::vector<std::uint64_t> states_;  // one per token of the slice
  std::uint64_t weights_ = 0;          // digest of the projected layer's weights
  std::vector<float> logits_;
  std::deque<Work> queue_;
  actors::Nanoseconds first_ends_{0};  // the first one's end, as far as is known
  bool gathered_ = false;              // the slice is launched as one piece
  bool stop_ = false;
};

}  // namespace mzcache::sim
