#include "engine/engine_state.h"

#include <algorithm>

namespace mzcache::engine {

using actors::UnitId;

namespace {

// A restore during which the device computed for this share of the time shows how stages do beside
// it; below the other share, how they do alone. What lies between shows neither.
constexpr double kBusyPercentMin = 50;
constexpr double kAlonePercentMax = 5;

}  // namespace

void EngineState::learn(const RestoreReport& report) {
  // Stages kept apart for the evaluation's sake are not how restores usually run.
  if (options.allocate_first || options.compute_last) return;
  if (report.overlap_percent < kBusyPercentMin && report.overlap_percent > kAlonePercentMax) return;
  const DeviceLoad load =
      report.overlap_percent >= kBusyPercentMin ? DeviceLoad::kBusy : DeviceLoad::kAlone;
  rates.add(RestoreStage::kReadModel, load,
            static_cast<double>(report.bytes_read - report.swap_bytes_read),
            (report.read_ms - report.swap_read_ms) / 1e3);
  rates.add(RestoreStage::kReadSwap, load, static_cast<double>(report.swap_bytes_read),
            report.swap_read_ms / 1e3);
  // Two codecs are as fast as two stages; what the same one decodes is one figure.
  const bool apart = codecs.storage != nullptr && codecs.storage != codecs.memory;
  const std::uint64_t stored_decoded = apart ? report.storage_bytes_decoded : 0;
  const double stored_ms = apart ? report.storage_decode_ms : 0;
  rates.add(RestoreStage::kDecode, load, static_cast<double>(report.bytes_decoded - stored_decoded),
            (report.decode_ms - stored_ms) / 1e3 / options.decompressors);
  rates.add(RestoreStage::kDecodeStored, load, static_cast<double>(stored_decoded),
            stored_ms / 1e3 / options.decompressors);
  rates.add(RestoreStage::kAllocate, load, static_cast<double>(report.bytes_allocated),
            report.allocate_ms / 1e3 / options.allocators);
  const StageRates alone = rates.rates(DeviceLoad::kAlone);
  if (alone.model_read > 0) profile.model_read_bytes_per_s = alone.model_read;
  if (alone.swap_read > 0) profile.swap_read_bytes_per_s = alone.swap_read;
  if (alone.decode > 0) profile.decode_bytes_per_s = alone.decode;
  if (alone.allocate > 0) profile.allocate_bytes_per_s = alone.allocate;
  if (alone.storage_decode > 0) profile.storage_decode_bytes_per_s = alone.storage_decode;
}

void EngineState::release(const std::vector<UnitId>& units) {
  std::vector<std::vector<UnitId>> parts(ports.release.size());
  for (const UnitId unit : units) {
    residency[unit].moving = true;
    parts[allocator_of(unit)].push_back(unit);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    ++releases_pending;
    ports.release[i].send(actors::ReleaseUnits{std::move(parts[i])});
  }
}

void EngineState::trim_chunks(Context& context, std::uint32_t chunks) {
  if (context.chunks <= chunks) return;
  std::vector<UnitId> gone;
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    for (std::uint32_t chunk = chunks; chunk < context.chunks; ++chunk) {
      const UnitId unit = actors::kv_unit(context.id, layer, chunk);
      if (residency[unit].resident) gone.push_back(unit);
    }
  }
  if (!gone.empty()) release(gone);
  context.chunks = chunks;
  residency.set_chunks(context.id, chunks);
}

std::uint64_t EngineState::free_unseen(const Context& context, std::uint64_t bytes) {
  std::vector<UnitId> gone;
  std::uint64_t freed = 0;
  for (std::uint32_t layer = model.layers; layer-- > 0;) {
    const std::uint32_t seen_from = std::min(
        context.chunks, model.layer[layer].first_visible(context.next_position()) / chunk_tokens());
    for (std::uint32_t chunk = 0; chunk < seen_from && freed < bytes; ++chunk) {
      const UnitId unit = actors::kv_unit(context.id, layer, chunk);
      const UnitRecord& record = residency[unit];
      if (record.unseen || record.moving) continue;
      residency.set_unseen(unit);
      if (!record.resident) continue;
      gone.push_back(unit);
      freed += model.chunk_bytes();
    }
  }
  if (!gone.empty()) release(gone);
  return freed;
}

void EngineState::free_unseen(const Context& context) {
  if (options.free_out_of_window) free_unseen(context, ~std::uint64_t{0});
}

void EngineState::lose_kv(Context& context) {
  context.kv_tokens = 0;
  trim_chunks(context, 0);
}

std::uint64_t EngineState::memory_swap_budget() const noexcept {
  if (options.memory_swap_max_bytes > 0) return options.memory_swap_max_bytes;
  return static_cast<std::uint64_t>(static_cast<double>(residency.kv_bytes()) *
                                    options.memory_swap_max_percent / 100.0);
}

}  // namespace mzcache::engine
