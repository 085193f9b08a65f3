// Actors on real threads: order, wake-ups, devices, shutdown. Nothing here depends on timing.
#include <array>
#include <atomic>
#include <condition_variable>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "actors/threaded_dispatcher.h"
#include "support/catch.h"

namespace mzcache::actors {
namespace {

constexpr ActorKind kKind = ActorKind::kCoordinator;

struct Numbered {
  std::uint32_t sender = 0;
  std::uint64_t number = 0;
  std::unique_ptr<std::uint64_t> payload;  // something TSan and ASan can watch over
};

class Counter {
 public:
  using Inbox = std::variant<Numbered>;
  explicit Counter(std::size_t senders) : next_(senders) {}
  void on(Numbered&& message) noexcept {
    if (message.number != next_[message.sender] || *message.payload != message.number) ++wrong;
    next_[message.sender] = message.number + 1;
    ++handled;
  }
  std::uint64_t handled = 0;
  std::uint64_t wrong = 0;

 private:
  std::vector<std::uint64_t> next_;
};

TEST_CASE("threaded: messages of one sender arrive in order, none is lost") {
  constexpr std::uint32_t kSenders = 8;
  constexpr std::uint64_t kEach = 20'000;
  Timeline timeline;
  ThreadedDispatcher dispatcher({}, {}, timeline);
  auto counter = dispatcher.spawn<Counter>({kKind, "counter"}, kSenders);
  dispatcher.start();
  std::vector<std::thread> senders;
  for (std::uint32_t sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&, sender] {
      const auto port = counter.port<Numbered>();
      for (std::uint64_t i = 0; i < kEach; ++i) {
        port.send({sender, i, std::make_unique<std::uint64_t>(i)});
        if (i % 1000 == sender) std::this_thread::yield();
      }
    });
  }
  for (auto& sender : senders) sender.join();
  dispatcher.stop();
  CHECK(counter.actor->handled == kSenders * kEach);
  CHECK(counter.actor->wrong == 0);
}

struct Ball {
  std::uint64_t left = 0;
};

class Player {
 public:
  using Inbox = std::variant<Ball>;
  void on(Ball&& ball) noexcept {
    ++hits;
    if (ball.left == 0) {
      done.store(true);
      done.notify_all();
    } else {
      opponent.send({ball.left - 1});
    }
  }
  Port<Ball> opponent;
  std::uint64_t hits = 0;
  std::atomic<bool> done{false};
};

TEST_CASE("threaded: no wake-up is lost over 100,000 returns") {
  constexpr std::uint64_t kReturns = 100'000;
  Timeline timeline;
  ThreadedDispatcher dispatcher({}, {}, timeline);
  auto a = dispatcher.spawn<Player>({kKind, "player-a"});
  auto b = dispatcher.spawn<Player>({kKind, "player-b"});
  a.actor->opponent = b.port<Ball>();
  b.actor->opponent = a.port<Ball>();
  dispatcher.start();
  a.port<Ball>().send({kReturns});  // an even number: ends with a
  a.actor->done.wait(false);
  dispatcher.stop();
  CHECK(a.actor->hits + b.actor->hits == kReturns + 1);
}

struct Tick {};

class Ticker {
 public:
  using Inbox = std::variant<Tick>;
  void on(Tick&&) noexcept {
    ticks.fetch_add(1, std::memory_order_release);
    ticks.notify_one();
  }
  std::atomic<std::uint64_t> ticks{0};
};

// Each message is sent when the one before was handled, after a pause that grows from nothing to
// several times what a receiver looks about before it sleeps: it arrives in every moment of falling
// asleep. A lost wake-up hangs here.
TEST_CASE("threaded: no wake-up is lost while the receiver falls asleep") {
  constexpr std::uint64_t kTicks = 50'000;
  constexpr std::uint64_t kPauses = 2'000;
  Timeline timeline;
  ThreadedDispatcher dispatcher({}, {}, timeline);
  auto ticker = dispatcher.spawn<Ticker>({kKind, "ticker"});
  dispatcher.start();
  const auto port = ticker.port<Tick>();
  std::atomic<std::uint64_t> pauses{0};
  for (std::uint64_t i = 0; i < kTicks; ++i) {
    for (std::uint64_t pause = 0; pause < i % kPauses; ++pause) pauses.fetch_add(1);
    port.send({});
    ticker.actor->ticks.wait(i, std::memory_order_acquire);
  }
  dispatcher.stop();
  CHECK(ticker.actor->ticks.load() == kTicks);
}

TEST_CASE("threaded: stop handles what is under way and what that causes") {
  Timeline timeline;
  ThreadedDispatcher dispatcher({}, {}, timeline);
  auto a = dispatcher.spawn<Player>({kKind, "player-a"});
  auto b = dispatcher.spawn<Player>({kKind, "player-b"});
  a.actor->opponent = b.port<Ball>();
  b.actor->opponent = a.port<Ball>();
  for (int ball = 0; ball < 10; ++ball) a.port<Ball>().send({2000});  // posted before start
  dispatcher.start();
  dispatcher.stop();
  CHECK(a.actor->hits + b.actor->hits == 10 * 2001);
  a.port<Ball>().send({5});  // after stop: harmless, never handled
  CHECK(a.actor->hits + b.actor->hits == 10 * 2001);
}

// A device like the ring: completions and wake-ups arrive at one waiting place.
class FakeDevice final : public WaitSource {
 public:
  void wait() noexcept override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return woken_ || completions_ > taken_; });
    woken_ = false;
  }
  void wake() noexcept override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    ++wakes;
    changed_.notify_one();
  }
  void set_notify(std::function<void()>) override {}
  void complete() {
    const std::lock_guard lock(mutex_);
    ++completions_;
    changed_.notify_one();
  }
  std::uint64_t reap() {
    const std::lock_guard lock(mutex_);
    return completions_ - std::exchange(taken_, completions_);
  }
  std::uint64_t wakes = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::uint64_t completions_ = 0;
  std::uint64_t taken_ = 0;
};

struct Request {};

class DeviceActor {
 public:
  using Inbox = std::variant<Request>;
  explicit DeviceActor(FakeDevice& device) : device_(device) {}
  WaitSource* wait_source() noexcept { return &device_; }
  void on(Request&&) noexcept { ++requests; }
  void on_device() noexcept { reaped += device_.reap(); }
  bool idle() const noexcept { return reaped == requests; }
  std::uint64_t requests = 0;
  std::uint64_t reaped = 0;

 private:
  FakeDevice& device_;
};

TEST_CASE("threaded: an actor waits on its device and its inbox at once") {
  constexpr std::uint64_t kRequests = 20'000;
  Timeline timeline;
  FakeDevice device;
  ThreadedDispatcher dispatcher({}, {}, timeline);
  auto actor = dispatcher.spawn<DeviceActor>({ActorKind::kStorageReader, "reader"}, device);
  dispatcher.start();
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < kRequests; ++i) actor.port<Request>().send({});
  });
  std::thread completer([&] {
    for (std::uint64_t i = 0; i < kRequests; ++i) {
      device.complete();
      if (i % 64 == 0) std::this_thread::yield();
    }
  });
  sender.join();
  completer.join();
  dispatcher.stop();  // waits until the actor is idle: every completion reaped
  CHECK(actor.actor->requests == kRequests);
  CHECK(actor.actor->reaped == kRequests);
  CHECK(device.wakes <= kRequests + 1);
}

TEST_CASE("threaded: stop waits for a completion that is still to come") {
  Timeline timeline;
  FakeDevice device;
  ThreadedDispatcher dispatcher({}, {}, timeline);
  auto actor = dispatcher.spawn<DeviceActor>({ActorKind::kStorageReader, "reader"}, device);
  dispatcher.start();
  actor.port<Request>().send({});
  std::latch stopping(1);
  std::thread completer([&] {
    stopping.wait();
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    device.complete();
  });
  stopping.count_down();
  dispatcher.stop();
  CHECK(actor.actor->reaped == 1);
  completer.join();
}

struct Leased {
  std::shared_ptr<int> lease;
};
class Ignorer {
 public:
  using Inbox = std::variant<Leased>;
  void on(Leased&&) noexcept {}  // does not take the lease
};

TEST_CASE("threaded: what a handler leaves in its message is given back at once") {
  Timeline timeline;
  ThreadedDispatcher dispatcher({}, {}, timeline);
  auto ignorer = dispatcher.spawn<Ignorer>({kKind, "ignorer"});
  auto lease = std::make_shared<int>(1);
  dispatcher.start();
  ignorer.port<Leased>().send({lease});
  dispatcher.stop();
  CHECK(lease.use_count() == 1);
}

TEST_CASE("threaded: spawn refuses what cannot run, naming it") {
  Timeline timeline;
  CpuTopology topology{{{0, CoreClass::kAny, 0}}};
  Placement placement;
  placement[ActorKind::kStorageReader].cores = {0, 77};
  ThreadedDispatcher dispatcher(placement, topology, timeline);
  try {
    (void)dispatcher.spawn<Ignorer>({ActorKind::kStorageReader, "reader"});
    FAIL("a core that is not there was accepted");
  } catch (const Exception& error) {
    CHECK(error.error().code == ErrorCode::kBadConfig);
    CHECK(error.error().message().find("placement.storage_reader") != std::string::npos);
    CHECK(error.error().message().find("77") != std::string::npos);
  }
  CHECK_THROWS_AS(dispatcher.spawn<Ignorer>({kKind, "sixteen-letters-"}), Exception);
  CHECK_THROWS_AS(dispatcher.spawn<Ignorer>({kKind, ""}), Exception);
  dispatcher.start();
  CHECK_THROWS_AS(dispatcher.spawn<Ignorer>({kKind, "late"}), Exception);
}

TEST_CASE("threaded: a core the system refuses is an error before any actor runs") {
  Timeline timeline;
  CpuTopology pretended{{{8000, CoreClass::kAny, 0}}};
  ThreadedDispatcher dispatcher({}, pretended, timeline);
  auto player = dispatcher.spawn<Player>({ActorKind::kPrefill, "player"});
  player.port<Ball>().send({0});
  try {
    dispatcher.start();
    FAIL("the core was accepted");
  } catch (const Exception& error) {
    CHECK(error.error().code == ErrorCode::kBadConfig);
    CHECK(error.error().message().find("placement.prefill") != std::string::npos);
  }
  CHECK(player.actor->hits == 0);
}

TEST_CASE("threaded: handler runs are spans with name, CPU and track") {
  Timeline timeline;
  timeline.enable(true);
  ThreadedDispatcher dispatcher({}, {}, timeline);
  auto counter = dispatcher.spawn<Counter>({kKind, "counter"}, 1);
  dispatcher.start();
  for (std::uint64_t i = 0; i < 100; ++i) {
    counter.port<Numbered>().send({0, i, std::make_unique<std::uint64_t>(i)});
  }
  dispatcher.stop();
  const auto spans = timeline.snapshot();
  REQUIRE(spans.size() == 100);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    CHECK(std::string_view(spans[i].name) == "Numbered");
    CHECK(spans[i].track == counter.track);
    CHECK(spans[i].cpu >= 0);
    CHECK(spans[i].end >= spans[i].begin);
    if (i > 0) CHECK(spans[i].begin >= spans[i - 1].end);
  }
}

}  // namespace
}  // namespace mzcache::actors
