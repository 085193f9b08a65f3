// Layers with a window: chunks behind it are freed once nothing can look at them again, restores
// leave them out, and evictions reckon without them. Every second of twelve layers looks back 10
// tokens; chunks hold 4.
#include "sim/sim_machine.h"

namespace {

using namespace mzcache;  // NOLINT(google-build-using-namespace)
using test::kContext;
using test::kLayers;
using test::Machine;

constexpr std::uint32_t kWindow = 10;
constexpr std::uint32_t kWindowed = kLayers / 2;

std::uint32_t resident_chunks(Machine& machine, std::uint32_t layer) {
  std::uint32_t count = 0;
  machine.world->state().residency.for_each([&](actors::UnitId unit, const auto& record) {
    count += unit.kind == actors::UnitKind::kKv && unit.layer == layer && record.resident ? 1U : 0U;
  });
  return count;
}

engine::EngineOptions keeping() {
  engine::EngineOptions options;
  options.free_out_of_window = false;
  return options;
}

}  // namespace

TEST_CASE("windows: chunks behind the window are freed and no part of the footprint") {
  Machine machine({}, {}, kWindow);
  machine.generate(200, 3);  // 202 tokens computed: 51 chunks
  CHECK(resident_chunks(machine, 1) == 51);
  // The next token, at 202, sees from 193 on: chunks 48 to 50.
  CHECK(resident_chunks(machine, 0) == 3);
  const StatusReport status = machine.status();
  CHECK(status.kv_bytes == std::uint64_t{kWindowed} * (51 + 3) * 4096);
  CHECK(status.remaining_percent == 100);
  CHECK(machine.world->state().residency.footprint_bytes() == status.footprint_bytes);
}

TEST_CASE("windows: while a turn can be taken back, what its start looks at stays") {
  Machine machine({}, {}, kWindow);
  machine.generate(100, 1);
  machine.post_generate(300, 1);
  // Until some slices of the prompt are computed.
  auto& dispatcher = machine.world->dispatcher();
  const auto& context = machine.world->state().cache.contexts().at(kContext);
  while (context.kv_tokens < 250) REQUIRE(dispatcher.run_until_quiet(1) == false);
  CHECK(resident_chunks(machine, 0) > 250 / 4 - 100 / 4);
  machine.world->coordinator().post(engine::CancelRequest{machine.id});
  machine.settle();
  REQUIRE(machine.generated->answer.tokens.empty());
  machine.generated.reset();
  machine.asked.resize(101);
  CHECK(context.tokens.size() == 101);
  CHECK(resident_chunks(machine, 0) <= 4);
  // Goes on from there without computing anything again.
  const auto next = machine.generate(5, 4);
  CHECK_FALSE(next.answer.restore.recomputed);
}

TEST_CASE("windows: a restore brings back what the next token looks at") {
  Machine machine({}, {}, kWindow);
  machine.generate(200, 3);
  const StatusReport before = machine.status();
  CHECK(machine.evict(100).remaining_percent < 1);
  machine.restore();
  CHECK(machine.status().resident.bytes == before.footprint_bytes);
  machine.evict(100);
  const auto next = machine.generate(5, 4);
  CHECK(next.answer.restore.bytes_allocated <= before.footprint_bytes + kLayers * 3 * 4096);
  CHECK(resident_chunks(machine, 0) <= 4);
}

TEST_CASE("windows: chunks kept behind the window leave first, and cost no restore") {
  Machine machine(keeping(), {}, kWindow);
  machine.generate(200, 3);
  CHECK(resident_chunks(machine, 0) == 51);
  const StatusReport before = machine.status();
  CHECK(before.kv_bytes == std::uint64_t{kLayers} * 51 * 4096);
  const EvictReport little = machine.evict(20);
  CHECK(little.freed_bytes >= little.requested_bytes);
  CHECK(little.freed_bytes < little.requested_bytes + 4096);
  CHECK(little.bytes_encoded == 0);
  CHECK(little.bytes_written == 0);
  CHECK(little.restore_memory_ms == 0);
  CHECK(little.restore_storage_ms == 0);
  CHECK(machine.status().remaining_percent == 100);
  const auto next = machine.generate(5, 4);
  CHECK(next.answer.restore.bytes_allocated <= std::uint64_t{kLayers} * 3 * 4096);
  // Everything: what is left behind the windows, then the rest.
  CHECK(machine.evict(100).remaining_percent < 1);
  machine.generate(5, 4);
}
