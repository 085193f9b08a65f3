// Runs actors one event at a time under a virtual clock: one heap ordered by virtual time, a seeded
// tie-break, and sequence. A seed reproduces a run exactly.
//
// - A message travels for a seeded random latency, so that every interleaving that per-sender FIFO
//   allows comes up under some seed. Posts from outside any handler count as one sender.
// - Handlers take no virtual time, except what simulated ports charge() while they run: until then
//   the actor is busy, what it sends afterwards leaves at that later time, and its next message
//   waits.
// - Nothing runs by itself: step(), run_until_quiet() and stop() run events. Destruction discards
//   what is left (devices it refers to may be gone).
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "actors/dispatcher.h"
#include "actors/handler.h"

namespace mzcache::actors {

class SimDispatcher;

class SimCell : public Cell {
 public:
  SimCell(ActorSpec spec, std::uint32_t track, std::uint32_t index)
      : Cell(std::move(spec), track), index_(index) {}

 protected:
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  virtual WaitSource* wait_source() noexcept = 0;
  virtual void run_message(std::uint32_t slot) noexcept = 0;
  virtual void run_device() noexcept = 0;

 private:
  friend class SimDispatcher;
  // When the last message of a sender arrives; the next one arrives with it or later.
  struct Arrival {
    Nanoseconds time{0};
    std::uint64_t tie = 0;
  };

  std::uint32_t index_;
  std::vector<Arrival> arrivals_;      // by sender: 0 outside, else the sender's index + 1
  std::deque<std::uint32_t> waiting_;  // slots that arrived while the actor was busy
  Nanoseconds busy_until_{0};
  bool resume_due_ = false;
  bool device_due_ = false;
  bool has_device_ = false;
};

class SimDispatcher final : public Dispatcher {
 public:
  // The timeline outlives the dispatcher.
  SimDispatcher(std::uint64_t seed, Timeline& timeline);
  ~SimDispatcher() override;
  SimDispatcher(const SimDispatcher&) = delete;
  SimDispatcher& operator=(const SimDispatcher&) = delete;

  template <class A, class... Args>
  Ref<A> spawn(ActorSpec spec, Args&&... args);

  // Connects the actors' devices: what a device's notify does is schedule on_device().
  void start();
  // Runs until quiet, kStopEventsMax events at most. Devices must still be there.
  void stop();

  // How long a message travels, both ends included. Default: 0 to 20 µs.
  void set_latency(Nanoseconds shortest, Nanoseconds longest);

  // The running actor is busy for this much longer. Outside a handler: nothing.
  void charge(Nanoseconds duration) noexcept;
  // Runs `action` at a virtual time (now, where that has passed): device completions, scripts.
  void at(Nanoseconds time, std::function<void()> action);

  // Runs the next event; false where there is none.
  bool step();
  // False where events are left after events_max of them.
  bool run_until_quiet(std::uint64_t events_max);

  // Virtual time, what the running handler was charged included.
  [[nodiscard]] Nanoseconds now() const noexcept { return now_ + charged_; }
  // The run's only source of chance.
  [[nodiscard]] std::mt19937_64& random() noexcept { return random_; }
  // Hash over everything delivered so far: time, actor, message type, unit.
  [[nodiscard]] std::uint64_t trace_hash() const noexcept { return trace_hash_; }

  [[nodiscard]] const Clock& clock() const noexcept override { return clock_; }
  [[nodiscard]] Timeline& timeline() noexcept override { return timeline_; }

  static constexpr std::uint64_t kStopEventsMax = 10'000'000;

 private:
  template <class A>
  class CellOf;

  class VirtualClock final : public Clock {
   public:
    explicit VirtualClock(const SimDispatcher& dispatcher) : dispatcher_(dispatcher) {}
    [[nodiscard]] Nanoseconds now() const noexcept override { return dispatcher_.now(); }

   private:
    const SimDispatcher& dispatcher_;
  };

  struct Event {
    Nanoseconds time{0};
    std::uint64_t tie = 0;
    std::uint64_t sequence = 0;
    SimCell* cell = nullptr;  // null: an action
    std::uint32_t slot = 0;   // of the message or action, or one of the marks below
  };
  static constexpr std::uint32_t kDeviceMark = 0xFFFF'FFFF;
  static constexpr std::uint32_t kResumeMark = 0xFFFF'FFFE;

  static bool later(const Event& a, const Event& b) noexcept;
  void push(Nanoseconds time, std::uint64_t tie, SimCell* cell, std::uint32_t slot);
  void schedule_message(SimCell& cell, std::uint32_t slot);
  void schedule_device(SimCell& cell);
  void run_action(std::uint32_t slot);
  void deliver(SimCell& cell, std::uint32_t slot);
  void run_in(SimCell& cell, std::uint32_t slot);
  // Folds one delivery into the trace hash, and hands the span to the timeline after the handler.
  void begin_span(const SimCell& cell, const SpanRecord& span) noexcept;
  void end_span(const SimCell& cell, SpanRecord& span) noexcept;
  void mix(std::uint64_t value) noexcept;

  Timeline& timeline_;
  VirtualClock clock_;
  std::mt19937_64 random_;
  Nanoseconds now_{0};
  Nanoseconds charged_{0};
  Nanoseconds latency_min_{0};
  Nanoseconds latency_max_{std::chrono::microseconds(20)};
  std::uint64_t sequence_ = 0;
  std::uint64_t trace_hash_ = 0;
  SimCell* current_ = nullptr;
  bool started_ = false;
  std::vector<Event> heap_;
  std::vector<std::function<void()>> actions_;
  std::vector<std::uint32_t> free_actions_;
  std::vector<std::unique_ptr<SimCell>> cells_;
};

template <class A>
class SimDispatcher::CellOf final : public SimCell, public Address<typename A::Inbox> {
 public:
  using Inbox = typename A::Inbox;

  template <class... Args>
  CellOf(ActorSpec spec, std::uint32_t track, std::uint32_t index, SimDispatcher& dispatcher,
         Args&&... args)
      : SimCell(std::move(spec), track, index),
        dispatcher_(dispatcher),
        actor_(std::forward<Args>(args)...) {}

  A& actor() noexcept { return actor_; }

  void post(Inbox&& message) noexcept override {
    std::uint32_t slot = static_cast<std::uint32_t>(messages_.size());
    if (free_.empty()) {
      messages_.emplace_back(std::move(message));
    } else {
      slot = free_.back();
      free_.pop_back();
      messages_[slot].emplace(std::move(message));
    }
    dispatcher_.schedule_message(*this, slot);
  }

 protected:
  WaitSource* wait_source() noexcept override {
    if constexpr (detail::WaitsOnDevice<A>) return actor_.wait_source();
    return nullptr;
  }
  void run_message(std::uint32_t slot) noexcept override {
    Inbox inbox = std::move(*messages_[slot]);
    messages_[slot].reset();
    free_.push_back(slot);
    std::visit(
        [this](auto& message) noexcept {
          SpanRecord span = detail::describe<A>(message);
          dispatcher_.begin_span(*this, span);
          actor_.on(std::move(message));
          dispatcher_.end_span(*this, span);
        },
        inbox);
  }
  void run_device() noexcept override {
    if constexpr (detail::WaitsOnDevice<A>) {
      SpanRecord span;
      span.name = "on_device";
      dispatcher_.begin_span(*this, span);
      actor_.on_device();
      dispatcher_.end_span(*this, span);
    }
  }

 private:
  SimDispatcher& dispatcher_;
  std::vector<std::optional<Inbox>> messages_;
  std::vector<std::uint32_t> free_;
  A actor_;
};

template <class A, class... Args>
Ref<A> SimDispatcher::spawn(ActorSpec spec, Args&&... args) {
  static_assert(detail::HandlersAreNoexcept<A>::value, "an actor's handlers are noexcept");
  const std::uint32_t track = timeline_.add_track(spec.name);
  auto cell =
      std::make_unique<CellOf<A>>(std::move(spec), track, static_cast<std::uint32_t>(cells_.size()),
                                  *this, std::forward<Args>(args)...);
  Ref<A> ref{&cell->actor(), cell.get(), track};
  cells_.push_back(std::move(cell));
  return ref;
}

}  // namespace mzcache::actors
