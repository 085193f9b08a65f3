// The mechanism of eviction on a machine without faults: what a second cycle costs, deadlines,
// pauses, prefetches.
#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/sim_machine.h"

namespace {

using namespace mzcache;  // NOLINT(google-build-using-namespace)
using test::kContext;
using test::kLayers;
using test::Machine;

}  // namespace

TEST_CASE("a second identical cycle writes nothing, and encodes nothing where forms are kept") {
  const bool keep = GENERATE(false, true);
  engine::EngineOptions options;
  options.keep_compressed = keep ? std::uint64_t{1} << 30 : 0;
  Machine machine(options);
  machine.generate(700, 3);
  const EvictReport first = machine.evict(60);
  CHECK(first.bytes_written > 0);
  CHECK(first.bytes_encoded > 0);
  // The in-memory swap comes and goes in whole segments.
  CHECK(first.freed_bytes - first.requested_bytes < actors::kSegmentBytes);
  machine.restore();
  CHECK(machine.status().compressed.units + machine.status().stored.units == 0);
  const EvictReport second = machine.evict(60);
  CHECK(second.bytes_written == 0);
  CHECK((second.bytes_encoded == 0) == keep);
  CHECK(second.units.kv_clean > 0);
  machine.generate(3, 3);
  CHECK(machine.world->check_quiet().empty());
}

TEST_CASE("kept forms are counted, and are the first to go") {
  engine::EngineOptions options;
  options.keep_compressed = std::uint64_t{1} << 30;
  Machine machine(options);
  machine.generate(700, 3);
  machine.evict(60);
  machine.restore();
  const StatusReport kept = machine.status();
  CHECK(kept.memory_swap_bytes > 0);
  CHECK(kept.remaining_percent > 100);
  machine.evict(1);
  CHECK(machine.world->state().residency.kept_bytes() <
        machine.world->state().options.keep_compressed);
  CHECK(machine.status().resident.bytes > 0);
  machine.evict(100);
  CHECK(machine.status().memory_swap_bytes == 0);
  CHECK(machine.status().resident.units == 0);
  machine.generate(3, 3);
}

TEST_CASE("everything leaves, whatever left before") {
  Machine machine;
  machine.generate(700, 3);
  for (const double percent : {10.0, 35.0, 100.0}) machine.evict(percent);
  const StatusReport status = machine.status();
  CHECK(status.resident.units == 0);
  CHECK(status.compressed.units == 0);
  CHECK(status.memory_swap_bytes == 0);
  CHECK(status.remaining_percent == 0);
  machine.generate(3, 3);
}

TEST_CASE("what is not moved in time is dropped and computed again") {
  sim::MachineOptions slow;
  slow.write_bytes_per_s = 1e5;
  slow.encode_bytes_per_s = 1e5;
  Machine machine({}, slow);
  machine.generate(700, 3);
  const auto begin = machine.world->dispatcher().now();
  const EvictReport report = machine.evict(100, std::chrono::milliseconds(5));
  CHECK(report.units.kv_dropped > 0);
  CHECK(report.freed_bytes == report.requested_bytes);
  CHECK(machine.status().resident.units == 0);
  // The chunks under way when the time was up still arrive.
  CHECK(machine.world->dispatcher().now() - begin < std::chrono::milliseconds(400));
  machine.generate(3, 3);  // checks the tokens
}

TEST_CASE("a paused turn goes on after the delay, with the same answer") {
  engine::EngineOptions options;
  options.resume_delay = std::chrono::milliseconds(50);
  Machine machine(options);
  machine.generate(200, 2);
  const auto begin = machine.world->dispatcher().now();
  machine.post_generate(60, 8, true);
  machine.world->dispatcher().at(begin + std::chrono::microseconds(700),
                                 [&] { machine.post_evict(70); });
  machine.settle();
  REQUIRE(machine.evicted.has_value());
  REQUIRE(machine.generated.has_value());
  CHECK(machine.generated->answer.stop == StopReason::kLength);
  CHECK(machine.generated->answer.tokens.size() == 8);
  CHECK(machine.world->dispatcher().now() - begin > std::chrono::milliseconds(50));
  machine.take_answer();
}

TEST_CASE("a restore of some bytes brings back the first layers") {
  Machine machine;
  machine.generate(100, 2);
  machine.evict(100);
  machine.restore(4096 * 4);
  const engine::Residency& residency = machine.world->state().residency;
  CHECK(residency[actors::weights_unit(0)].resident);
  CHECK_FALSE(residency[actors::head_unit(kLayers)].resident);
  CHECK(machine.status().resident.bytes >= 4096 * 4);
  CHECK(machine.status().resident.bytes < machine.status().footprint_bytes / 2);
  machine.generate(3, 3);
}

TEST_CASE("copies that were given up are written and encoded again") {
  engine::EngineOptions options;
  options.keep_compressed = std::uint64_t{1} << 30;
  Machine machine(options);
  machine.generate(700, 3);
  const EvictReport first = machine.evict(60);
  machine.restore(0, false);
  CHECK(machine.status().memory_swap_bytes == 0);
  CHECK(machine.world->state().slots.used_bytes() == 0);
  const EvictReport second = machine.evict(60);
  CHECK(second.bytes_written == first.bytes_written);
  CHECK(second.bytes_encoded == first.bytes_encoded);
  CHECK(second.units.kv_clean == 0);
  machine.generate(3, 3);
  CHECK(machine.world->check_quiet().empty());
}

TEST_CASE("full chunks in the in-memory swap are read where they lie, and a restore decodes them") {
  engine::EngineOptions options;
  options.compressed_attention = true;
  Machine machine(options);
  machine.generate(700, 3);
  const EvictReport report = machine.evict(40);
  CHECK(report.units.kv_compressed > 0);
  CHECK(report.units.kv_stored + report.units.weights_dropped == 0);
  CHECK(report.restore_memory_ms == 0);
  const std::uint32_t compressed = machine.status().compressed.units;
  const engine::GenerateResult result = machine.generate(3, 3);
  // The chunk that is written to comes back in every layer, and nothing else.
  const std::uint64_t chunk_bytes = machine.world->state().model.chunk_bytes();
  CHECK(result.answer.restore.bytes_decoded <= kLayers * chunk_bytes);
  CHECK(machine.status().compressed.units + kLayers >= compressed);
  CHECK(machine.world->check_quiet().empty());
  machine.evict(90);  // what the file takes comes back from there
  machine.generate(3, 3);
  machine.restore();
  CHECK(machine.status().compressed.units + machine.status().stored.units == 0);
  machine.generate(3, 3);
  CHECK(machine.world->check_quiet().empty());
}

TEST_CASE("a report says what the two restore paths owe") {
  Machine machine;
  machine.generate(700, 3);
  const EvictReport nothing = machine.evict(0);
  CHECK(nothing.restore_memory_ms == 0);
  CHECK(nothing.restore_storage_ms == 0);
  machine.evict(100);
  const EvictReport all = machine.evict(0);
  const engine::RestoreProfile& profile = machine.world->state().profile;
  std::uint64_t read = 0;
  std::uint64_t decoded = 0;
  const engine::Residency& residency = machine.world->state().residency;
  residency.for_each([&](actors::UnitId unit, const engine::UnitRecord& record) {
    REQUIRE_FALSE(record.compressed);
    const std::uint64_t bytes = residency.unit_bytes(unit);
    const bool encoded = record.stored && record.stored->encoded;
    read += encoded ? record.stored->bytes : bytes;
    decoded += encoded ? bytes : 0;
  });
  CHECK(decoded > 0);
  CHECK(std::abs(all.restore_storage_ms -
                 1e3 * static_cast<double>(read) / profile.model_read_bytes_per_s) < 1e-4);
  CHECK(std::abs(all.restore_memory_ms -
                 1e3 * static_cast<double>(decoded) / profile.decode_bytes_per_s) < 1e-4);
}
