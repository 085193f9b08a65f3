// Prefill (paper §4.2, §4.4): feeds the compute queue. A layer's stages are enqueued as soon as the
// units they need are there, in order, a few layers ahead of the device; never before.
//
//   idle ── ComputeTokens ──▶ computing ── last stage computed ──▶ idle (TokenReady)
//                                 │ StopCompute
//                                 ▼
//                             draining ── queue empty ──▶ idle (TokenReady{stopped})
//
// Waits only in its inbox: the compute queue's listener posts StageComputed to it. State: the slice
// under way and how far it was enqueued and computed. Invariant: nothing is enqueued on a unit that
// was not announced as ready, and TokenReady is sent only when the queue is empty and every report
// of it is in.
#pragma once

#include <variant>
#include <vector>

#include "actors/actor.h"
#include "actors/messages.h"
#include "actors/timeline.h"

namespace mzcache::actors {

class Prefill {
 public:
  using Inbox = std::variant<ComputeTokens, LayerReady, StopCompute, ReleaseScratch, StageComputed>;
  struct Ports {
    Port<LayerComputed> layer_computed;
    Port<TokenReady> token_ready;
    Port<ScratchReleased> scratch_released;
  };

  Prefill(ComputeQueue& queue, const Clock& clock, Timeline& timeline);
  // `self` receives what the compute queue completes.
  void connect(Ports ports, Port<StageComputed> self);

  void on(ComputeTokens&& message) noexcept;
  void on(LayerReady&& message) noexcept;
  void on(StopCompute&& message) noexcept;
  void on(ReleaseScratch&& message) noexcept;
  void on(StageComputed&& message) noexcept;

 private:
  enum class State { kIdle, kComputing, kDraining };

  void enqueue_more() noexcept;
  [[nodiscard]] bool enqueue_next() noexcept;
  void stage_computed(const ComputeCompletion& completion) noexcept;
  void fail(Error error) noexcept;
  void finish_if_drained() noexcept;
  void record(const ComputeCompletion& completion, UnitId unit) noexcept;
  // Stages are counted through: two per layer, then the head.
  [[nodiscard]] std::uint32_t stages_total() const noexcept;
  [[nodiscard]] bool stage_ready(std::uint32_t stage) const noexcept;

  ComputeQueue& queue_;
  const Clock& clock_;
  Timeline& timeline_;
  std::uint32_t device_track_;
  Ports ports_;

  State state_ = State::kIdle;
  ComputeTokens work_;
  std::uint32_t enqueued_ = 0;            // stages handed to the queue
  std::uint32_t completed_ = 0;           // stages known to be done
  std::vector<ComputeCompletion> early_;  // reports that overtook others
  std::vector<bool> starved_;             // stages whose units were not there when their turn came
  Error error_;
  bool stopped_ = false;
  Nanoseconds accepted_{0};  // when the slice was begun
  Nanoseconds first_begin_{0};
  Nanoseconds layer_begin_{0};  // of the layer being computed
  Nanoseconds last_end_{0};
  Nanoseconds compute_{0};
  Nanoseconds wait_{0};
};

}  // namespace mzcache::actors
