// KV that is not kept, because computing it again is quicker: what leaves, and that it comes back.
#include "sim/sim_machine.h"

namespace {

using namespace mzcache;  // NOLINT(google-build-using-namespace)
using test::kContext;
using test::kLayers;
using test::Machine;

Machine recomputing(std::uint32_t window = 0, engine::EngineOptions options = {}) {
  engine::PlannerOptions policy;
  policy.recompute = true;
  Machine machine(options, {}, window, policy);
  machine.world->state().profile.prefill_tokens_per_s = 1e9;
  return machine;
}

const engine::Context& context_of(Machine& machine) {
  return machine.world->state().cache.contexts().at(kContext);
}

}  // namespace

TEST_CASE("the last positions are dropped, and computed again by the next turn") {
  Machine machine = recomputing();
  machine.generate(700, 3);
  const std::uint64_t kv_before = machine.status().kv_bytes;
  const EvictReport report = machine.evict(20);
  CHECK(report.units.kv_dropped > 0);
  CHECK(report.units.kv_dropped % kLayers == 0);  // whole columns
  CHECK(report.bytes_encoded == 0);
  CHECK(report.bytes_written == 0);
  CHECK(report.units.weights_dropped == 0);
  CHECK(report.freed_bytes >= report.requested_bytes);
  const std::uint64_t column = kLayers * machine.world->state().model.chunk_bytes();
  CHECK(report.freed_bytes < report.requested_bytes + column);
  // What is kept is kept whole, and the rest is gone.
  const engine::Context& context = context_of(machine);
  CHECK(context.kv_tokens > 0);
  CHECK(context.kv_tokens % machine.world->state().chunk_tokens() == 0);
  CHECK(machine.status().kv_bytes + report.units.kv_dropped / kLayers * column == kv_before);
  CHECK(machine.world->check_quiet().empty());
  const engine::GenerateResult answer = machine.generate(5, 3);  // checks the tokens
  CHECK(answer.answer.restore.recomputed);
  CHECK_FALSE(machine.generate(5, 3).answer.restore.recomputed);
  CHECK(machine.world->check_quiet().empty());
}

TEST_CASE("what is encoded or stored already is dropped as well") {
  engine::PlannerOptions policy;
  policy.recompute = true;
  Machine machine({}, {}, 0, policy);
  machine.generate(700, 3);
  machine.evict(45);  // the rate is not known yet
  CHECK(machine.status().compressed.units + machine.status().stored.units > 0);
  machine.world->state().profile.prefill_tokens_per_s = 1e9;
  machine.evict(100);
  CHECK(machine.status().kv_bytes == 0);
  CHECK(machine.status().memory_swap_bytes == 0);
  CHECK(machine.world->state().slots.used_bytes() == 0);
  CHECK(context_of(machine).kv_tokens == 0);
  CHECK(machine.world->check_quiet().empty());
  machine.generate(5, 3);
}

TEST_CASE("where computing is slower nothing is left to it") {
  Machine machine = recomputing();
  machine.world->state().profile.prefill_tokens_per_s = 1;
  machine.generate(700, 3);
  const EvictReport report = machine.evict(60);
  CHECK(report.units.kv_dropped == 0);
  CHECK(report.units.kv_compressed > 0);
  CHECK_FALSE(machine.generate(5, 3).answer.restore.recomputed);
}

TEST_CASE("with windows all of a context is computed again") {
  Machine machine = recomputing(20);
  machine.generate(700, 3);
  machine.evict(5);
  CHECK(context_of(machine).kv_tokens == 0);
  CHECK(machine.status().kv_bytes == 0);
  CHECK(machine.world->check_quiet().empty());
  CHECK(machine.generate(5, 3).answer.restore.recomputed);
}

TEST_CASE("a paused turn computes again what was dropped meanwhile") {
  engine::EngineOptions options;
  options.resume_delay = std::chrono::milliseconds(50);
  Machine machine = recomputing(0, options);
  machine.generate(200, 2);
  machine.post_generate(60, 8, true);
  machine.world->dispatcher().at(machine.world->dispatcher().now() + std::chrono::microseconds(700),
                                 [&] { machine.post_evict(70); });
  machine.settle();
  REQUIRE(machine.evicted.has_value());
  CHECK(machine.evicted->units.kv_dropped > 0);
  const engine::GenerateResult answer = machine.take_answer();
  CHECK(answer.answer.tokens.size() == 8);
  CHECK(answer.answer.restore.recomputed);
}
