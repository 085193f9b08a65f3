// The coordinator (paper §4.1): one request at a time against one truth of what is where.
//
//             ┌────────── Generate, Restore ──────────┐
//             ▼                                       │
//   idle ─▶ working (generating and/or restoring) ─▶ idle
//             │ Evict, Cancel, failure
//             ▼
//           quieting: the device drains at the next layer boundary, units on their way arrive
//             │
//             ▼
//           evicting ─▶ idle
//
// Evict wins over everything at the next layer boundary; several add up in turn. Restore and
// Generate wait for each other in the order they came. Status answers at once. The concerns are
// objects of their own (Restoring, Evicting, Generating); this actor decides who has the word.
// Invariant: units move only while exactly one concern has the word.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "actors/actor.h"
#include "engine/engine_state.h"
#include "engine/evicting.h"
#include "engine/generating.h"
#include "engine/requests.h"
#include "engine/restoring.h"

namespace mzcache::engine {

class Coordinator {
 public:
  using Inbox = std::variant<
      // from outside
      OpenContext, ResetContext, ArrangeRequest, GenerateRequest, EvictRequest, RestoreRequest,
      StatusRequest, CancelRequest, Shutdown, ResumePaused,
      // restore
      actors::UnitsAllocated, actors::UnitReady, actors::UnitFailed, actors::RowsRead,
      actors::LayerComputed, actors::TokenReady,
      // evict
      actors::ChunkCompressed, actors::ChunkWritten, actors::UnitsReleased,
      actors::ScratchReleased>;

  explicit Coordinator(EngineState& state);
  // `self`: where its timer's messages come in.
  void connect(PipelinePorts ports, actors::Port<ResumePaused> self) {
    state_.ports = std::move(ports);
    self_ = self;
  }

  void on(OpenContext&& request) noexcept;
  void on(ResetContext&& request) noexcept;
  void on(ArrangeRequest&& request) noexcept;
  void on(GenerateRequest&& request) noexcept;
  void on(EvictRequest&& request) noexcept;
  void on(RestoreRequest&& request) noexcept;
  void on(StatusRequest&& request) noexcept;
  void on(CancelRequest&& request) noexcept;
  void on(Shutdown&& request) noexcept;
  void on(ResumePaused&& message) noexcept;

  void on(actors::UnitsAllocated&& message) noexcept;
  void on(actors::UnitReady&& message) noexcept;
  void on(actors::UnitFailed&& message) noexcept;
  void on(actors::RowsRead&& message) noexcept;
  void on(actors::LayerComputed&& message) noexcept;
  void on(actors::TokenReady&& message) noexcept;

  void on(actors::ChunkCompressed&& message) noexcept;
  void on(actors::ChunkWritten&& message) noexcept;
  void on(actors::ScratchReleased&& message) noexcept;
  void on(actors::UnitsReleased&& message) noexcept;

  // When everything was resident for the first time, and the first token; 0: not yet. Read these on
  // the coordinator's thread (a StatusRequest's answer).
  [[nodiscard]] actors::Nanoseconds first_ready() const noexcept { return first_ready_; }
  [[nodiscard]] actors::Nanoseconds first_token() const noexcept { return first_token_; }

 private:
  enum class Activity { kIdle, kGenerating, kRestoring, kEvicting };
  // Why the work under way must end, the strongest last.
  enum class Interrupt { kNone, kEvict, kLost, kFailed, kCancelled };
  using Queued = std::variant<GenerateRequest, RestoreRequest, ResetContext, ArrangeRequest, Turn>;

  void step();
  [[nodiscard]] bool start_next();
  void start(GenerateRequest&& request);
  void start(RestoreRequest&& request);
  void start(ResetContext&& request);
  void start(ArrangeRequest&& request);
  void start(EvictRequest&& request);
  void start(Turn&& turn);
  void compute_slice();
  void send_slice_when_ready();
  void interrupt(Interrupt why);
  void handle_interrupt();
  void recompute_lost();
  void finish_generate(StopReason reason, Error error);
  void finish_restore(Error error, const std::string& detail);
  void pause_generate();
  void end_next_paused();
  void restore_missing();
  void refuse(Queued&& queued);
  void refuse_queued();
  [[nodiscard]] bool quiet() const noexcept;
  [[nodiscard]] const char* activity_name() const noexcept;
  void check() const noexcept;

  EngineState& state_;
  Restoring restoring_;
  Evicting evicting_;
  Generating generating_;

  Activity activity_ = Activity::kIdle;
  Interrupt interrupt_ = Interrupt::kNone;
  Error failure_;                      // for Interrupt::kFailed
  std::optional<std::uint32_t> lost_;  // context whose KV cannot come back
  std::deque<EvictRequest> evicts_;
  std::deque<Queued> queue_;
  std::optional<Turn> paused_;  // waits for its time; later Generates wait behind it
  std::deque<Turn> ending_;     // cancelled while paused
  actors::Port<ResumePaused> self_;
  std::optional<EvictRequest> evict_;      // the one under way
  std::optional<RestoreRequest> restore_;  // the one under way
  std::string restore_detail_;
  std::optional<Shutdown> shutdown_;
  bool closed_ = false;
  actors::Nanoseconds first_ready_{0};
  actors::Nanoseconds first_token_{0};
};

}  // namespace mzcache::engine
