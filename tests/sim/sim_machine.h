// A simulated machine without faults and its one conversation, for tests of single mechanisms.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/greedy.h"
#include "sim/sim_world.h"
#include "support/catch.h"

namespace mzcache::test {

inline constexpr std::uint32_t kContext = 1;
inline constexpr std::uint32_t kLayers = 12;

struct Machine {
  explicit Machine(engine::EngineOptions options = {}, sim::MachineOptions machine = {},
                   std::uint32_t window = 0, engine::PlannerOptions policy = {}) {
    options.swap_range_bytes = std::uint64_t{64} << 20;
    // Large enough that a segment of the in-memory swap is little against its KV cache.
    sim::ModelOptions model;
    model.layers = kLayers;
    model.window = window;
    world =
        std::make_unique<sim::World>(7, model, machine, options, engine::WorkerCounts{}, policy);
    world->coordinator().post(engine::OpenContext{kContext, 1000, [](const Error&) {}});
    settle();
  }
  void settle() { REQUIRE(world->dispatcher().run_until_quiet(10'000'000)); }

  void post_generate(std::uint32_t prompt, std::uint32_t answer, bool resume = false) {
    engine::GenerateRequest request;
    request.id = ++id;
    request.context = kContext;
    for (std::uint32_t i = 0; i < prompt; ++i) request.tokens.push_back(static_cast<Token>(i % 97));
    asked.insert(asked.end(), request.tokens.begin(), request.tokens.end());
    request.source = std::make_shared<sim::Greedy>(answer);
    request.slice_tokens = 64;
    request.resume_after_evict = resume;
    request.accepted = world->dispatcher().now();
    request.done = [this](engine::GenerateResult result) { generated = std::move(result); };
    world->coordinator().post(std::move(request));
  }
  engine::GenerateResult generate(std::uint32_t prompt, std::uint32_t answer) {
    post_generate(prompt, answer);
    settle();
    REQUIRE(generated.has_value());
    return take_answer();
  }
  engine::GenerateResult take_answer() {
    REQUIRE(generated->error.code == ErrorCode::kOk);
    for (const Token token : generated->answer.tokens) {
      CHECK(token == world->expected(asked));
      asked.push_back(token);
    }
    return *std::exchange(generated, std::nullopt);
  }
  void post_evict(double percent, actors::Nanoseconds deadline = {}) {
    engine::EvictRequest request;
    request.id = ++id;
    request.percent = percent;
    request.deadline = deadline;
    request.accepted = world->dispatcher().now();
    request.done = [this](const Error& error, const EvictReport& report) {
      CHECK(error.code == ErrorCode::kOk);
      evicted = report;
    };
    world->coordinator().post(std::move(request));
  }
  EvictReport evict(double percent, actors::Nanoseconds deadline = {}) {
    post_evict(percent, deadline);
    settle();
    REQUIRE(evicted.has_value());
    return *std::exchange(evicted, std::nullopt);
  }
  void restore(std::uint64_t bytes = 0, bool keep_copies = true) {
    engine::RestoreRequest request;
    request.id = ++id;
    request.bytes = bytes;
    request.keep_copies = keep_copies;
    request.done = [](const Error& error, const RestoreReport&) {
      CHECK(error.code == ErrorCode::kOk);
    };
    world->coordinator().post(std::move(request));
    settle();
  }
  StatusReport status() { return world->state().residency.totals(); }

  std::unique_ptr<sim::World> world;
  std::vector<Token> asked;  // the whole context
  std::uint64_t id = 0;
  std::optional<engine::GenerateResult> generated;
  std::optional<EvictReport> evicted;
};

}  // namespace mzcache::test
