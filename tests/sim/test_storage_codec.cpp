// A codec of its own for what goes to storage, on a machine without faults but those named.
#include <cmath>
#include <cstdint>

#include "sim/sim_machine.h"

namespace {

using namespace mzcache;  // NOLINT(google-build-using-namespace)
using actors::CodecTier;
using test::Machine;

sim::MachineOptions with_storage_codec() {
  sim::MachineOptions machine;
  machine.storage_codec = true;
  // Faster than the other codec's, so that both paths are worth their while.
  machine.storage_decode_bytes_per_s = 2e10;
  return machine;
}

struct Forms {
  std::uint32_t compressed = 0;
  std::uint32_t stored_raw = 0;
  std::uint32_t stored_by_memory_codec = 0;
  std::uint32_t stored_by_storage_codec = 0;
  std::uint64_t stored_bytes = 0;
};

Forms forms_of(Machine& machine) {
  Forms forms;
  const engine::Residency& residency = machine.world->state().residency;
  residency.for_each([&](actors::UnitId, const engine::UnitRecord& record) {
    forms.compressed += record.compressed ? 1U : 0U;
    if (!record.stored) return;
    forms.stored_bytes += record.stored->bytes;
    if (!record.stored->encoded) {
      ++forms.stored_raw;
    } else if (record.stored->tier == CodecTier::kStorage) {
      ++forms.stored_by_storage_codec;
    } else {
      ++forms.stored_by_memory_codec;
    }
  });
  return forms;
}

}  // namespace

TEST_CASE("chunks of the storage path are encoded by its codec, written and read back so") {
  Machine machine({}, with_storage_codec());
  machine.generate(700, 3);
  const std::uint64_t chunk = machine.world->state().model.chunk_bytes();
  const EvictReport first = machine.evict(60);
  const Forms forms = forms_of(machine);
  CHECK(forms.stored_by_storage_codec > 0);
  CHECK(forms.stored_raw == 0);
  CHECK(forms.compressed == first.units.kv_compressed);
  CHECK(first.units.kv_stored == forms.stored_by_storage_codec);
  CHECK(first.storage_bytes_encoded == first.units.kv_stored * chunk);
  CHECK(first.bytes_encoded == (first.units.kv_stored + first.units.kv_compressed) * chunk);
  CHECK(forms.stored_bytes < first.storage_bytes_encoded / 3);
  CHECK(machine.world->check_quiet().empty());

  // What was stored is still there, and is what came back.
  machine.restore();
  CHECK(forms_of(machine).stored_by_storage_codec == forms.stored_by_storage_codec);
  const EvictReport second = machine.evict(60);
  CHECK(second.bytes_written == 0);
  CHECK(second.storage_bytes_encoded == 0);
  CHECK(second.units.kv_clean >= forms.stored_by_storage_codec);
  const engine::GenerateResult answer = machine.generate(3, 3);
  CHECK(answer.answer.restore.storage_bytes_decoded == forms.stored_by_storage_codec * chunk);
  CHECK(answer.answer.restore.bytes_decoded >= answer.answer.restore.storage_bytes_decoded);
  CHECK_FALSE(answer.answer.restore.recomputed);
  CHECK(machine.world->check_quiet().empty());
}

TEST_CASE("what leaves the in-memory swap for the file stays as its codec made it") {
  Machine machine({}, with_storage_codec());
  machine.generate(700, 3);
  machine.evict(60);
  const Forms before = forms_of(machine);
  REQUIRE(before.compressed > 0);
  machine.evict(100);
  const Forms after = forms_of(machine);
  CHECK(after.compressed == 0);
  CHECK(after.stored_by_memory_codec >= before.compressed);
  CHECK(after.stored_by_storage_codec >= before.stored_by_storage_codec);
  machine.generate(3, 3);
  CHECK(machine.world->check_quiet().empty());
}

TEST_CASE("with the in-memory swap closed everything goes through the codec for storage") {
  engine::EngineOptions options;
  options.memory_closed = true;
  Machine machine(options, with_storage_codec());
  machine.generate(700, 3);
  const EvictReport report = machine.evict(100);
  const Forms forms = forms_of(machine);
  CHECK(report.units.kv_compressed == 0);
  CHECK(report.bytes_encoded == report.storage_bytes_encoded);
  CHECK(forms.stored_raw + forms.stored_by_memory_codec + forms.compressed == 0);
  CHECK(forms.stored_by_storage_codec == report.units.kv_stored);
  CHECK(machine.status().memory_swap_bytes == 0);
  machine.generate(3, 3);
  CHECK(machine.world->check_quiet().empty());
}

TEST_CASE("what the codec for storage cannot encode is stored as it lies") {
  sim::MachineOptions options = with_storage_codec();
  options.encode_error = 1;
  Machine machine({}, options);
  machine.generate(700, 3);
  const EvictReport report = machine.evict(60);
  CHECK(report.units.kv_stored > 0);
  CHECK(report.storage_bytes_encoded == 0);
  CHECK(forms_of(machine).stored_raw == report.units.kv_stored);
  CHECK_FALSE(machine.generate(3, 3).answer.restore.recomputed);
  CHECK(machine.world->check_quiet().empty());
}

TEST_CASE("a codec for storage that saves nothing is not used") {
  sim::MachineOptions options = with_storage_codec();
  options.stored_share = 1;
  Machine machine({}, options);
  machine.generate(700, 3);
  const EvictReport report = machine.evict(60);
  CHECK(report.units.kv_stored > 0);
  CHECK(report.storage_bytes_encoded == 0);
  CHECK(forms_of(machine).stored_by_storage_codec == 0);
  machine.generate(3, 3);
}

TEST_CASE("a full disk sends encoded chunks to the in-memory swap instead") {
  sim::MachineOptions options = with_storage_codec();
  options.no_space = 1;
  Machine machine({}, options);
  machine.generate(700, 3);
  const EvictReport report = machine.evict(80);
  CHECK(report.units.kv_stored == 0);
  CHECK(report.units.kv_compressed > 0);
  CHECK(machine.world->state().slots.used_bytes() == 0);
  machine.generate(3, 3);
  CHECK(machine.world->check_quiet().empty());
}

TEST_CASE("a damaged encoded chunk in the file is found, and its context computed again") {
  engine::EngineOptions options;
  options.memory_closed = true;
  Machine machine(options, with_storage_codec());
  machine.generate(700, 3);
  machine.evict(100);
  REQUIRE(forms_of(machine).stored_by_storage_codec > 0);
  machine.world->machine().bit_flip = 1;
  CHECK(machine.generate(3, 3).answer.restore.recomputed);  // the tokens are checked
  machine.world->machine().bit_flip = 0;
  machine.evict(100);
  CHECK_FALSE(machine.generate(3, 3).answer.restore.recomputed);
}

TEST_CASE("what is not encoded for the file in time is dropped and computed again") {
  sim::MachineOptions slow = with_storage_codec();
  slow.write_bytes_per_s = 1e5;
  slow.storage_encode_bytes_per_s = 1e5;
  engine::EngineOptions options;
  options.memory_closed = true;
  Machine machine(options, slow);
  machine.generate(700, 3);
  const auto begin = machine.world->dispatcher().now();
  const EvictReport report = machine.evict(100, std::chrono::milliseconds(5));
  CHECK(report.units.kv_dropped > 0);
  CHECK(report.freed_bytes == report.requested_bytes);
  CHECK(machine.world->dispatcher().now() - begin < std::chrono::milliseconds(400));
  machine.generate(3, 3);
}

TEST_CASE("a report counts what both codecs' chunks owe") {
  Machine machine({}, with_storage_codec());
  machine.generate(700, 3);
  machine.evict(100);
  const EvictReport all = machine.evict(0);
  const engine::RestoreProfile& profile = machine.world->state().profile;
  const engine::Residency& residency = machine.world->state().residency;
  double read_s = 0;
  double decode_s = 0;
  residency.for_each([&](actors::UnitId unit, const engine::UnitRecord& record) {
    const auto bytes = static_cast<double>(residency.unit_bytes(unit));
    if (!record.stored) {
      read_s += bytes / profile.model_read_bytes_per_s;
      return;
    }
    read_s += static_cast<double>(record.stored->bytes) / profile.swap_read_bytes_per_s;
    REQUIRE(record.stored->encoded);
    decode_s +=
        bytes / (record.stored->tier == CodecTier::kStorage ? profile.storage_decode_bytes_per_s
                                                            : profile.decode_bytes_per_s);
  });
  CHECK(decode_s > 0);
  CHECK(std::abs(all.restore_storage_ms - 1e3 * read_s) < 1e-4);
  CHECK(std::abs(all.restore_memory_ms - 1e3 * decode_s) < 1e-4);
}
