// Runs each actor on a thread of its own, named and pinned as the configuration says.
//
// Thread-safety: spawn, start and stop belong to one thread (the owner's); addresses and ports may
// be used from any thread from spawn() until the dispatcher's destruction. What is posted after
// stop() is never handled.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "actors/dispatcher.h"
#include "actors/handler.h"
#include "actors/mailbox.h"
#include "actors/placement.h"

namespace mzcache::actors {

// Monotonic time of the machine.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds now() const noexcept override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
};

// The CPU this thread runs on, -1 where unknown.
[[nodiscard]] std::int32_t current_cpu() noexcept;

class ThreadedDispatcher;

// An actor's loop: drain the inbox, look at the device, sleep.
class ThreadedCell : public Cell {
 public:
  ThreadedCell(ActorSpec spec, std::uint32_t track, std::vector<std::uint32_t> cores)
      : Cell(std::move(spec), track), cores_(std::move(cores)) {}

 protected:
  virtual Parker& parker() noexcept = 0;
  virtual bool inbox_empty() const noexcept = 0;
  virtual std::size_t drain() noexcept = 0;  // one batch; how many were handled
  virtual WaitSource* wait_source() noexcept = 0;
  virtual void on_device() noexcept = 0;
  virtual bool idle() const noexcept = 0;  // the actor has nothing in flight on its device

 private:
  friend class ThreadedDispatcher;
  void run(ThreadedDispatcher& dispatcher) noexcept;
  [[nodiscard]] bool more_comes() noexcept;
  void park(ThreadedDispatcher& dispatcher) noexcept;
  void finish() noexcept;

  std::vector<std::uint32_t> cores_;
  WaitSource* source_ = nullptr;
  std::atomic<bool> finish_{false};
  std::atomic<bool> in_flight_{false};
  std::uint64_t turns_seen_ = 0;  // stop()'s first look
  std::thread thread_;
};

// Whether the compute device runs on the cores that the actors run on.
enum class DeviceCores : std::uint8_t { kOwn, kShared };

// The calling thread takes the place among others that an actor's thread has: what the device waits
// for goes first, and where the device computes on the same cores it goes before codecs and
// allocators. Wishes, like run_promptly().
void take_place(ActorKind kind, DeviceCores cores) noexcept;

class ThreadedDispatcher final : public Dispatcher {
 public:
  // The timeline outlives the dispatcher. An empty topology pins nothing.
  ThreadedDispatcher(Placement placement, CpuTopology topology, Timeline& timeline,
                     DeviceCores device_cores = DeviceCores::kOwn);
  ~ThreadedDispatcher() override;
  ThreadedDispatcher(const ThreadedDispatcher&) = delete;
  ThreadedDispatcher& operator=(const ThreadedDispatcher&) = delete;

  // Throws Exception: kBadConfig names the placement key where a core is not there, kBadArgument a
  // name over 15 characters, or a spawn after start().
  template <class A, class... Args>
  Ref<A> spawn(ActorSpec spec, Args&&... args);

  // Starts every thread. Throws Exception (kBadConfig) where the system refuses a core; no actor
  // has run then.
  void start();
  // Handles what was posted, and what that causes, until every actor sleeps over an empty inbox and
  // is idle(); then joins. Bounded: after kDrainLimit it joins all the same.
  void stop() noexcept;

  [[nodiscard]] const Clock& clock() const noexcept override { return clock_; }
  [[nodiscard]] Timeline& timeline() noexcept override { return timeline_; }

  static constexpr Nanoseconds kDrainLimit = std::chrono::seconds(10);

 private:
  friend class ThreadedCell;
  template <class A>
  class CellOf;
  enum class Gate : std::uint32_t { kClosed, kOpen, kAbandoned };

  std::vector<std::uint32_t> admit(const ActorSpec& spec) const;  // its cores, or throws
  void adopt(std::unique_ptr<ThreadedCell> cell);
  void launch(ThreadedCell& cell);
  void join(Gate gate) noexcept;
  void about_to_sleep() noexcept;
  [[nodiscard]] bool quiet() noexcept;

  Placement placement_;
  CpuTopology topology_;
  Timeline& timeline_;
  DeviceCores device_cores_;
  SteadyClock clock_;
  std::vector<std::unique_ptr<ThreadedCell>> cells_;
  bool started_ = false;
  bool stopped_ = false;
  std::atomic<Gate> gate_{Gate::kClosed};
  std::atomic<bool> draining_{false};
  std::mutex drain_mutex_;
  std::condition_variable drain_changed_;
};

template <class A>
class ThreadedDispatcher::CellOf final : public ThreadedCell, public Address<typename A::Inbox> {
 public:
  using Inbox = typename A::Inbox;

  template <class... Args>
  CellOf(ActorSpec spec, std::uint32_t track, std::vector<std::uint32_t> cores,
         ThreadedDispatcher& dispatcher, Args&&... args)
      : ThreadedCell(std::move(spec), track, std::move(cores)),
        clock_(dispatcher.clock_),
        timeline_(dispatcher.timeline_),
        actor_(std::forward<Args>(args)...) {}

  A& actor() noexcept { return actor_; }
  void post(Inbox&& message) noexcept override { mailbox_.post(std::move(message)); }

 protected:
  Parker& parker() noexcept override { return mailbox_.parker(); }
  bool inbox_empty() const noexcept override { return mailbox_.empty(); }
  std::size_t drain() noexcept override {
    return mailbox_.drain([this](Inbox& inbox) noexcept {
      std::visit([this](auto& message) noexcept { this->handle(message); }, inbox);
    });
  }
  WaitSource* wait_source() noexcept override {
    if constexpr (detail::WaitsOnDevice<A>) return actor_.wait_source();
    return nullptr;
  }
  void on_device() noexcept override {
    if constexpr (detail::WaitsOnDevice<A>) {
      if (!timeline_.enabled()) return actor_.on_device();
      SpanRecord span;
      span.name = "on_device";
      traced(span, [this]() noexcept { actor_.on_device(); });
    }
  }
  bool idle() const noexcept override {
    if constexpr (detail::ReportsIdle<A>) return actor_.idle();
    return true;
  }

 private:
  template <class Message>
  void handle(Message& message) noexcept {
    if (!timeline_.enabled()) [[likely]] {
      actor_.on(std::move(message));
      return;
    }
    SpanRecord span = detail::describe<A>(message);
    traced(span, [&]() noexcept { actor_.on(std::move(message)); });
  }
  template <class Body>
  void traced(SpanRecord& span, Body&& body) noexcept {
    span.track = track();
    span.begin = clock_.now();
    body();
    span.end = clock_.now();
    span.cpu = current_cpu();
    timeline_.record(span);
  }

  const SteadyClock& clock_;
  Timeline& timeline_;
  Mailbox<Inbox> mailbox_;
  A actor_;
};

template <class A, class... Args>
Ref<A> ThreadedDispatcher::spawn(ActorSpec spec, Args&&... args) {
  static_assert(detail::HandlersAreNoexcept<A>::value, "an actor's handlers are noexcept");
  auto cores = admit(spec);
  const std::uint32_t track = timeline_.add_track(spec.name);
  auto cell = std::make_unique<CellOf<A>>(std::move(spec), track, std::move(cores), *this,
                                          std::forward<Args>(args)...);
  Ref<A> ref{&cell->actor(), cell.get(), track};
  adopt(std::move(cell));
  return ref;
}

}  // namespace mzcache::actors
