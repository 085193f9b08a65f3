// Evict, restore, generate, cancel and forget without end: nothing leaks, nothing gets stuck.
// MZCACHE_STRESS_CYCLES sets the number of cycles, MZCACHE_STRESS_SEED the seed.
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "mzcache/runtime.h"
#include "support/catch.h"
#include "system/memory_probe.h"
#include "system/system_messages.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

constexpr Token kVocabulary = 320;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsOurs = false;  // the sanitizer keeps what was freed
constexpr std::uint32_t kCycles = 250;
#else
constexpr bool kMemoryIsOurs = true;
constexpr std::uint32_t kCycles = 1000;
#endif

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// One runtime with two conversations, and what may happen to them.
class World {
 public:
  World(const Config& config, std::uint64_t seed)
      : runtime_(config), model_(runtime_.load(golden_model("llama-gqa"))), random_(seed) {
    for (Session& session : sessions_) session = model_.open_session();
  }

  void cycle() {
    const Session session = sessions_[draw(2)];
    switch (draw(8)) {
      case 0:
      case 1:
        return evict();
      case 2:
        return (void)ask(runtime_, Restore{});
      case 3:
        return cancelled_answer(session);
      case 4:
        return evicted_answer(session);
      case 5:
        if (draw(4) == 0) (void)ask(runtime_, Reset{session});
        return;
      default:
        return answer(session);
    }
  }
  // To the same place: everything forgotten, nothing resident.
  void settle() {
    for (const Session session : sessions_) (void)ask(runtime_, Reset{session});
    (void)ask(runtime_, evict_percent(100));
    const StatusReport status = ask(runtime_, Status{});
    CHECK(status.resident.units == 0);
    CHECK(status.memory_swap_bytes == 0);
    CHECK(status.swap_file_bytes == 0);
    CHECK(status.kv_bytes == 0);
    CHECK(status.activity == "idle");
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  std::vector<Token> tokens() {
    const std::size_t count = draw(6) == 0 ? 1 + draw(900) : 1 + draw(40);
    return some_tokens(count, kVocabulary, random_());
  }

  void evict() {
    const EvictReport report = ask(runtime_, evict_percent(static_cast<double>(draw(101))));
    CHECK((report.freed_bytes >= report.requested_bytes || report.all_there_is));
  }
  // A full context is forgotten and is no failure.
  void check(Session session, std::error_code error, const Answer& answer) {
    if (error == ErrorCode::kContextFull || answer.stop == StopReason::kContextFull) {
      (void)ask(runtime_, Reset{session});
      return;
    }
    INFO(answer.detail);
    CHECK((!error || error == ErrorCode::kCancelled));
  }
  void answer(Session session) {
    Answer answer;
    try {
      answer = ask(runtime_, generate(session, tokens(), 1 + static_cast<std::uint32_t>(draw(6))));
    } catch (const std::system_error& error) {
      return check(session, error.code(), answer);
    }
    check(session, {}, answer);
  }
  void cancelled_answer(Session session) {
    asio::io_context io;
    asio::cancellation_signal cancel;
    std::error_code failed;
    Answer report;
    int completed = 0;
    runtime_.send(
        generate(session, tokens(), 64),
        asio::bind_cancellation_slot(
            cancel.slot(), asio::bind_executor(io, [&](std::error_code error, Answer answer) {
              ++completed;
              failed = error;
              report = std::move(answer);
            })));
    for (auto spins = draw(20000); spins > 0; --spins)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    cancel.emit(asio::cancellation_type::terminal);
    io.run();
    CHECK(completed == 1);
    check(session, failed, report);
  }
  void evicted_answer(Session session) {
    auto running = runtime_.send(generate(session, tokens(), 32), asio::use_future);
    evict();
    try {
      const Answer report = running.get();
      check(session, {}, report);
    } catch (const std::system_error& error) {
      check(session, error.code(), {});
    }
  }

  Runtime runtime_;
  Model model_;
  Session sessions_[2];
  std::mt19937_64 random_;
};

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / kMiB; }

}  // namespace

TEST_CASE("a thousand cycles leak nothing") {
  const std::uint64_t seed = from_environment("MZCACHE_STRESS_SEED", std::random_device{}());
  const auto cycles =
      static_cast<std::uint32_t>(from_environment("MZCACHE_STRESS_CYCLES", kCycles));
  std::printf("seed %llu, %u cycles\n", static_cast<unsigned long long>(seed), cycles);
  CAPTURE(seed);
  for (const char* codec : {"q8", "none"}) {
    CAPTURE(codec);
    Config config;
    config.memory.codec = codec;
    World world(config, seed);
    // The first tenth fills what is kept for good (caches, thread arenas, the driver's pools).
    std::uint64_t settled = 0;
    for (std::uint32_t i = 0; i < cycles; ++i) {
      CAPTURE(i);
      world.cycle();
      if (i + 1 == cycles / 5) {
        world.settle();
        settled = rss_bytes();
      }
    }
    world.settle();
    const std::uint64_t after = rss_bytes();
    std::printf("%s: RSS %.2f MiB after %u cycles, %.2f MiB after %u\n", codec, mib(settled),
                cycles / 5, mib(after), cycles);
    if (kMemoryIsOurs) CHECK(after <= settled + 4 * kMiB);
  }
}
