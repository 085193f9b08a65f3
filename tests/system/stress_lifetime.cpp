// A Runtime may be destroyed at any moment, from any thread; every message completes exactly once.
#include <array>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <atomic>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>

#include "mzcache/runtime.h"
#include "support/catch.h"
#include "system/system_messages.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

constexpr Token kVocabulary = 320;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRounds = 20;
#else
constexpr int kRounds = 60;
#endif

// Counts the completions of each message.
class Ledger {
 public:
  explicit Ledger(std::size_t messages) : counts_(messages) {}
  // A handler for message `index`, on `executor`.
  template <class Executor>
  auto handler(std::size_t index, const Executor& executor) {
    return asio::bind_executor(executor,
                               [this, index](std::error_code, auto&&) { ++counts_[index]; });
  }
  void check() const {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      CAPTURE(i);
      CHECK(counts_[i] == 1);
    }
  }

 private:
  std::vector<std::atomic<int>> counts_;
};

void wait_a_little(std::mt19937_64& random) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
}

}  // namespace

TEST_CASE("destroying the runtime in the middle of anything completes every message once") {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(seed, round);
    asio::io_context io;
    Ledger ledger(6);
    auto runtime = std::make_unique<Runtime>();
    const Model model = runtime->load(golden_model("llama-gqa"));
    const Session first = model.open_session();
    const Session second = model.open_session();
    // The first message is also the load; what is under way when the end comes differs by round.
    const auto executor = io.get_executor();
    runtime->send(generate(first, some_tokens(300, kVocabulary, random()), 200),
                  ledger.handler(0, executor));
    runtime->send(generate(second, some_tokens(20, kVocabulary, random()), 200),
                  ledger.handler(1, executor));
    if (random() % 2 == 0) wait_a_little(random);
    runtime->send(evict_percent(static_cast<double>(random() % 101)), ledger.handler(2, executor));
    runtime->send(Restore{}, ledger.handler(3, executor));
    if (random() % 2 == 0) wait_a_little(random);
    runtime->send(evict_percent(100), ledger.handler(4, executor));
    runtime->send(Status{}, ledger.handler(5, executor));
    if (random() % 2 == 0) wait_a_little(random);
    runtime.reset();
    io.run();
    ledger.check();
  }
}

TEST_CASE("a runtime destroyed by the handler of one of its messages, on another thread") {
  std::mt19937_64 random(7);
  for (int round = 0; round < kRounds / 2; ++round) {
    CAPTURE(round);
    Ledger ledger(3);
    std::atomic<int> first{0};
    asio::thread_pool pool(2);
    auto runtime = std::make_unique<Runtime>();
    const Session session = runtime->load(golden_model("llama-gqa")).open_session();
    Runtime& alive = *runtime;
    // All but the first are sent before it can complete: it takes the runtime with it.
    std::atomic<bool> sent{false};
    alive.send(generate(session, some_tokens(10, kVocabulary, random()), 3),
               asio::bind_executor(pool, [&](std::error_code, const Answer&) {
                 while (!sent) std::this_thread::yield();
                 runtime.reset();
                 ++first;
               }));
    alive.send(generate(session, some_tokens(10, kVocabulary, random()), 100),
               ledger.handler(0, pool.get_executor()));
    alive.send(evict_percent(50), ledger.handler(1, pool.get_executor()));
    alive.send(Restore{}, ledger.handler(2, pool.get_executor()));
    sent = true;
    pool.join();
    CHECK(first == 1);
    CHECK(runtime == nullptr);
    ledger.check();
  }
}

TEST_CASE("what is sent when the runtime is gone completes too") {
  asio::io_context io;
  Ledger ledger(2);
  Runtime runtime;
  // Nothing loaded: refused, through the executor all the same.
  runtime.send(evict_percent(10), ledger.handler(0, io.get_executor()));
  runtime.send(Status{}, ledger.handler(1, io.get_executor()));
  io.run();
  ledger.check();
}

TEST_CASE("a cancellation slot that fires at a random moment") {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  Runtime runtime;
  const Model model = runtime.load(golden_model("llama-gqa"));
  const Session session = model.open_session();
  for (int round = 0; round < 4 * kRounds; ++round) {
    CAPTURE(seed, round);
    asio::io_context io;
    asio::cancellation_signal cancel;
    asio::cancellation_signal cancel_restore;
    int completed = 0;
    std::uint32_t context = 0;
    runtime.send(
        generate(session, some_tokens(1 + random() % 60, kVocabulary, random()), 500),
        asio::bind_cancellation_slot(
            cancel.slot(), asio::bind_executor(io, [&](std::error_code error, const Answer& a) {
              ++completed;
              context = a.context_tokens;
              CHECK((!error || error == ErrorCode::kCancelled || error == ErrorCode::kContextFull));
            })));
    runtime.send(
        Restore{},
        asio::bind_cancellation_slot(
            cancel_restore.slot(),
            asio::bind_executor(io, [&](std::error_code, const RestoreReport&) { ++completed; })));
    if (round % 3 != 0) wait_a_little(random);
    cancel.emit(asio::cancellation_type::terminal);
    cancel_restore.emit(asio::cancellation_type::terminal);
    cancel.emit(asio::cancellation_type::terminal);
    io.run();
    CHECK(completed == 2);
    if (round % 5 == 4) (void)ask(runtime, evict_percent(static_cast<double>(random() % 101)));
    if (round % 10 == 9) (void)ask(runtime, Reset{session});
  }
}

TEST_CASE("an answer cancelled from another thread than it was sent from") {
  // Two senders to one inbox: nothing orders them but the caller.
  Runtime runtime;
  const Session session = runtime.load(golden_model("llama-gqa")).open_session();
  for (int round = 0; round < 2 * kRounds; ++round) {
    CAPTURE(round);
    asio::io_context io;
    asio::cancellation_signal cancel;
    int completed = 0;
    StopReason stop = StopReason::kEos;
    runtime.send(generate(session, some_tokens(5, kVocabulary, 3), 2000),
                 asio::bind_cancellation_slot(
                     cancel.slot(), asio::bind_executor(io, [&](std::error_code, const Answer& a) {
                       ++completed;
                       stop = a.stop;
                     })));
    std::thread([&] { cancel.emit(asio::cancellation_type::terminal); }).join();
    io.run();
    CHECK(completed == 1);
    CHECK((stop == StopReason::kCancelled || stop == StopReason::kEos));
    (void)ask(runtime, Reset{session});
  }
}
