// Messages from several threads at once, and two conversations that must not notice each other.
#include <atomic>
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
constexpr int kMessages = 40;
#else
constexpr int kMessages = 150;
#endif

// The turns of one conversation and the answers to them; a turn that an eviction cut short is
// repeated from an empty context.
std::vector<std::vector<Token>> turns(std::uint64_t seed) {
  std::vector<std::vector<Token>> made;
  for (std::uint64_t i = 0; i < 6; ++i) {
    made.push_back(some_tokens(40 + 60 * (i % 3), kVocabulary, seed + i));
  }
  return made;
}

}  // namespace

TEST_CASE("messages of every kind from several threads at once") {
  Runtime runtime;
  const Model model = runtime.load(golden_model("llama-gqa"));
  std::atomic<int> answered{0};
  std::atomic<int> unexpected{0};
  const auto talk = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const Session session = model.open_session();
    for (int i = 0; i < kMessages; ++i) {
      try {
        switch (random() % 7) {
          case 0:
            (void)ask(runtime, evict_percent(static_cast<double>(random() % 101)));
            break;
          case 1:
            (void)ask(runtime, Restore{});
            break;
          case 2:
            (void)ask(runtime, Status{});
            break;
          case 3:
            (void)ask(runtime, Reset{session});
            break;
          case 4:
            (void)runtime.load_report();
            break;
          case 5:
            (void)model.piece(static_cast<Token>(random() % 300));
            break;
          default:
            (void)ask(runtime,
                      generate(session, some_tokens(1 + random() % 50, kVocabulary, random()),
                               1 + static_cast<std::uint32_t>(random() % 8)));
        }
      } catch (const std::system_error& error) {
        if (error.code() != ErrorCode::kContextFull && error.code() != ErrorCode::kCancelled) {
          ++unexpected;
        }
      }
      ++answered;
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(talk, seed);
  for (std::thread& thread : threads) thread.join();
  CHECK(answered == 4 * kMessages);
  CHECK(unexpected == 0);
  const StatusReport status = ask(runtime, Status{});
  CHECK(status.activity == "idle");
}

TEST_CASE("two interleaved conversations answer as if each were alone") {
  Config config;
  config.memory.codec = "none";
  const auto first_turns = turns(100);
  const auto second_turns = turns(200);
  std::vector<std::vector<Token>> alone;
  for (const auto* conversation : {&first_turns, &second_turns}) {
    Runtime runtime(config);
    const Session session = runtime.load(golden_model("llama-gqa")).open_session();
    for (const auto& turn : *conversation) {
      alone.push_back(ask(runtime, generate(session, turn, 12)).tokens);
    }
  }
  Runtime runtime(config);
  const Model model = runtime.load(golden_model("llama-gqa"));
  const Session first = model.open_session();
  const Session second = model.open_session();
  for (std::size_t i = 0; i < first_turns.size(); ++i) {
    CAPTURE(i);
    auto one = runtime.send(generate(first, first_turns[i], 12), asio::use_future);
    auto other = runtime.send(generate(second, second_turns[i], 12), asio::use_future);
    CHECK(one.get().tokens == alone[i]);
    CHECK(other.get().tokens == alone[first_turns.size() + i]);
    (void)ask(runtime, evict_percent(i % 2 == 0 ? 60 : 100));
  }
}
