// The virtual clock: determinism, order, what charging does.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "actors/sim_dispatcher.h"
#include "support/catch.h"

namespace mzcache::actors {
namespace {

using std::chrono::microseconds;
constexpr ActorKind kKind = ActorKind::kCoordinator;

struct Tick {
  UnitId unit;
  std::uint32_t sender = 0;
  std::uint32_t number = 0;
};
struct Kick {
  std::uint32_t count = 0;
};

// Records what it got, in order.
class Sink {
 public:
  using Inbox = std::variant<Tick>;
  explicit Sink(const Clock& clock) : clock_(clock) {}
  void on(Tick&& tick) noexcept {
    ticks.push_back(tick);
    times.push_back(clock_.now());
    if (sim != nullptr) sim->charge(cost);
  }
  std::vector<Tick> ticks;
  std::vector<Nanoseconds> times;
  SimDispatcher* sim = nullptr;
  Nanoseconds cost{0};

 private:
  const Clock& clock_;
};

// Sends `count` ticks when kicked, each after a charge.
class Source {
 public:
  using Inbox = std::variant<Kick>;
  Source(SimDispatcher& sim, std::uint32_t id) : sim_(sim), id_(id) {}
  void on(Kick&& kick) noexcept {
    for (std::uint32_t i = 0; i < kick.count; ++i) {
      out.send({weights_unit(i), id_, i});
      sim_.charge(cost);
    }
  }
  Port<Tick> out;
  Nanoseconds cost{0};

 private:
  SimDispatcher& sim_;
  std::uint32_t id_;
};

struct Outcome {
  std::uint64_t hash = 0;
  std::string order;  // the senders in order of arrival
  bool in_order = true;
  std::size_t count = 0;
};

Outcome run(std::uint64_t seed) {
  Timeline timeline;
  SimDispatcher sim(seed, timeline);
  auto sink = sim.spawn<Sink>({kKind, "sink"}, sim.clock());
  std::vector<Ref<Source>> sources;
  for (std::uint32_t id = 0; id < 3; ++id) {
    sources.push_back(sim.spawn<Source>({kKind, "source-" + std::to_string(id)}, sim, id));
    sources.back().actor->out = sink.port<Tick>();
  }
  sim.start();
  for (auto& source : sources) source.port<Kick>().send({4});
  for (std::uint32_t i = 0; i < 4; ++i) sink.port<Tick>().send({weights_unit(i), 3, i});
  REQUIRE(sim.run_until_quiet(1000));
  Outcome outcome{sim.trace_hash(), "", true, sink.actor->ticks.size()};
  std::vector<std::uint32_t> next(4, 0);
  for (const Tick& tick : sink.actor->ticks) {
    outcome.order += static_cast<char>('0' + tick.sender);
    outcome.in_order = outcome.in_order && tick.number == next[tick.sender]++;
  }
  return outcome;
}

TEST_CASE("sim: a seed reproduces a run, seeds differ, every sender stays in order") {
  std::set<std::uint64_t> hashes;
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Outcome once = run(seed);
    const Outcome again = run(seed);
    INFO("seed " << seed);
    CHECK(once.hash == again.hash);
    CHECK(once.order == again.order);
    CHECK(once.count == 16);
    CHECK(once.in_order);
    hashes.insert(once.hash);
    orders.insert(once.order);
  }
  CHECK(hashes.size() == 500);
  CHECK(orders.size() > 400);  // interleavings
}

TEST_CASE("sim: order holds even where every message travels equally long") {
  Timeline timeline;
  SimDispatcher sim(7, timeline);
  sim.set_latency(Nanoseconds{0}, Nanoseconds{0});
  auto sink = sim.spawn<Sink>({kKind, "sink"}, sim.clock());
  sim.start();
  for (std::uint32_t i = 0; i < 200; ++i) sink.port<Tick>().send({UnitId{}, 0, i});
  REQUIRE(sim.run_until_quiet(1000));
  REQUIRE(sink.actor->ticks.size() == 200);
  for (std::uint32_t i = 0; i < 200; ++i) CHECK(sink.actor->ticks[i].number == i);
  CHECK(sim.now() == Nanoseconds{0});
}

TEST_CASE("sim: what is sent after a charge leaves later") {
  Timeline timeline;
  timeline.enable(true);
  SimDispatcher sim(1, timeline);
  sim.set_latency(microseconds(5), microseconds(5));
  auto sink = sim.spawn<Sink>({kKind, "sink"}, sim.clock());
  auto source = sim.spawn<Source>({kKind, "source"}, sim, 0U);
  source.actor->out = sink.port<Tick>();
  source.actor->cost = microseconds(100);
  sim.start();
  source.port<Kick>().send({3});
  REQUIRE(sim.run_until_quiet(100));
  // The kick arrives at 5, its ticks leave at 5, 105, 205.
  CHECK(sink.actor->times ==
        std::vector<Nanoseconds>{microseconds(10), microseconds(110), microseconds(210)});
  const auto spans = timeline.snapshot();
  const auto kick = std::find_if(spans.begin(), spans.end(), [](const SpanRecord& span) {
    return std::string_view(span.name) == "Kick";
  });
  REQUIRE(kick != spans.end());
  CHECK(kick->begin == microseconds(5));
  CHECK(kick->end == microseconds(305));
  CHECK(kick->track == source.track);
  const auto tick = std::find_if(spans.begin(), spans.end(),
                                 [](const SpanRecord& span) { return span.has_unit; });
  REQUIRE(tick != spans.end());
  CHECK(tick->unit == weights_unit(0));
}

TEST_CASE("sim: a busy actor's next message waits, in order") {
  Timeline timeline;
  SimDispatcher sim(1, timeline);
  sim.set_latency(microseconds(1), microseconds(1));
  auto sink = sim.spawn<Sink>({kKind, "sink"}, sim.clock());
  sink.actor->sim = &sim;
  sink.actor->cost = microseconds(50);
  sim.start();
  for (std::uint32_t i = 0; i < 4; ++i) sink.port<Tick>().send({UnitId{}, 0, i});
  REQUIRE(sim.run_until_quiet(100));
  CHECK(sink.actor->times == std::vector<Nanoseconds>{microseconds(1), microseconds(51),
                                                      microseconds(101), microseconds(151)});
  for (std::uint32_t i = 0; i < 4; ++i) CHECK(sink.actor->ticks[i].number == i);
}

TEST_CASE("sim: actions run at their time, past ones now; a limit is reported") {
  Timeline timeline;
  SimDispatcher sim(3, timeline);
  std::vector<Nanoseconds> ran;
  sim.at(microseconds(20), [&] {
    ran.push_back(sim.now());
    sim.at(microseconds(1), [&] { ran.push_back(sim.now()); });
  });
  sim.at(microseconds(10), [&] { ran.push_back(sim.now()); });
  CHECK_FALSE(sim.run_until_quiet(1));
  CHECK(sim.run_until_quiet(100));
  CHECK(ran == std::vector<Nanoseconds>{microseconds(10), microseconds(20), microseconds(20)});
  CHECK_FALSE(sim.step());
  sim.charge(microseconds(5));  // outside a handler: nobody is busy
  CHECK(sim.now() == microseconds(20));
}

class SimDevice final : public WaitSource {
 public:
  void wait() noexcept override { FAIL("a simulated device is never waited on"); }
  void wake() noexcept override {}
  void set_notify(std::function<void()> notify) override { notify_ = std::move(notify); }
  void complete() {
    ++done;
    notify_();
  }
  std::uint32_t done = 0;

 private:
  std::function<void()> notify_;
};

class DeviceActor {
 public:
  using Inbox = std::variant<Kick>;
  DeviceActor(SimDispatcher& sim, SimDevice& device) : sim_(sim), device_(device) {}
  WaitSource* wait_source() noexcept { return &device_; }
  void on(Kick&& kick) noexcept {
    for (std::uint32_t i = 0; i < kick.count; ++i) {
      sim_.at(sim_.now() + microseconds(100 * (i + 1)), [this] { device_.complete(); });
    }
    flushed = false;
  }
  void on_device() noexcept {
    flushed = true;
    if (device_.done > reaped) times.push_back(sim_.now());
    reaped = device_.done;
  }
  bool flushed = true;
  std::uint32_t reaped = 0;
  std::vector<Nanoseconds> times;

 private:
  SimDispatcher& sim_;
  SimDevice& device_;
};

TEST_CASE("sim: a device's completion reaches its actor at the virtual time it falls due") {
  Timeline timeline;
  SimDevice device;
  SimDispatcher sim(11, timeline);
  sim.set_latency(microseconds(2), microseconds(2));
  auto actor = sim.spawn<DeviceActor>({ActorKind::kStorageReader, "reader"}, sim, device);
  sim.start();
  actor.port<Kick>().send({2});
  REQUIRE(sim.run_until_quiet(100));
  CHECK(actor.actor->reaped == 2);
  CHECK(actor.actor->flushed);  // looked at the device after the message, too
  CHECK(actor.actor->times == std::vector<Nanoseconds>{microseconds(102), microseconds(202)});
}

TEST_CASE("sim: stop runs what is left, destruction does not") {
  Timeline timeline;
  bool ran = false;
  {
    SimDispatcher sim(1, timeline);
    sim.start();
    sim.at(microseconds(1), [&] { ran = true; });
  }
  CHECK_FALSE(ran);
  SimDispatcher sim(1, timeline);
  sim.start();
  sim.at(microseconds(1), [&] { ran = true; });
  sim.stop();
  CHECK(ran);
}

}  // namespace
}  // namespace mzcache::actors
