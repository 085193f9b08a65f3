#include "engine/residency.h"

#include <algorithm>

#include "engine/plan_input.h"

namespace mzcache::engine {

using actors::Origin;
using actors::UnitId;
using actors::UnitKind;

Residency::Residency(const actors::ModelDescription& model, MemorySwap& swap, SwapSlots& slots)
    : model_(model), swap_(swap), slots_(slots), weights_(model.layers) {}

void Residency::set_resident(UnitId unit, bool resident) {
  UnitRecord& record = (*this)[unit];
  if (record.resident == resident) return;
  record.resident = resident;
  resident_bytes_ += resident ? unit_bytes(unit) : -unit_bytes(unit);
  if (record.compressed) {
    const std::uint64_t kept = record.compressed->slot.bytes;
    kept_bytes_ += resident ? kept : -kept;
  }
}

void Residency::set_compressed(UnitId unit, const CompressedForm& form) {
  UnitRecord& record = (*this)[unit];
  drop_compressed(record);
  record.compressed = form;
  if (record.resident) kept_bytes_ += form.slot.bytes;
}

void Residency::set_chunks(std::uint32_t context, std::uint32_t chunks) {
  auto& layers = kv_[context];
  layers.resize(model_.layers);
  for (auto& layer : layers) {
    for (std::size_t chunk = chunks; chunk < layer.size(); ++chunk) {
      if (layer[chunk].resident) resident_bytes_ -= model_.chunk_bytes();
      drop_compressed(layer[chunk]);
      drop_stored(layer[chunk]);
    }
    layer.resize(chunks);
  }
  if (chunks == 0) kv_.erase(context);
}

void Residency::set_unseen(UnitId unit) {
  UnitRecord& record = (*this)[unit];
  drop_compressed(record);
  drop_stored(record);
  record.unseen = true;
}

bool Residency::seen(UnitId chunk, std::uint32_t position) const noexcept {
  const std::uint32_t first = model_.layer[chunk.layer].first_visible(position);
  return chunk.chunk >= first / model_.chunk_layout().tokens;
}

void Residency::forget_forms(UnitId unit) {
  UnitRecord& record = (*this)[unit];
  drop_compressed(record);
  drop_stored(record);
  record.empty = false;
}

void Residency::drop_compressed(UnitRecord& record) {
  if (!record.compressed) return;
  if (record.resident) kept_bytes_ -= record.compressed->slot.bytes;
  swap_.pop(record.compressed->slot);
  record.compressed.reset();
}

void Residency::drop_stored(UnitRecord& record) {
  if (!record.stored) return;
  slots_.free(record.stored->offset);
  record.stored.reset();
}

void Residency::drop_copies() {
  for_each([this](UnitId, UnitRecord& record) {
    if (!record.resident || record.moving) return;
    drop_compressed(record);
    drop_stored(record);
  });
}

std::optional<Origin> Residency::origin(UnitId unit) const {
  if (unit.kind == UnitKind::kWeights) {
    return actors::FileOrigin{model_.layer[unit.layer].ranges, std::nullopt};
  }
  if (unit.kind == UnitKind::kHead) return actors::FileOrigin{model_.head.ranges, std::nullopt};
  const UnitRecord& record = (*this)[unit];
  if (record.compressed) {
    return actors::MemoryOrigin{swap_.bytes(record.compressed->slot), record.compressed->checksum,
                                record.compressed->token_count};
  }
  if (record.stored) {
    const actors::FileRange range{actors::FileId::kSwap, record.stored->offset, 0,
                                  record.stored->bytes};
    if (record.stored->encoded) {
      return actors::EncodedFileOrigin{range, record.stored->checksum, record.stored->token_count,
                                       record.stored->tier};
    }
    return actors::FileOrigin{{range}, record.stored->checksum};
  }
  if (record.empty) return actors::FreshOrigin{};
  return std::nullopt;
}

std::uint64_t Residency::unit_bytes(UnitId unit) const noexcept {
  if (unit.kind == UnitKind::kHead) return model_.head.unit_bytes;
  if (unit.kind == UnitKind::kWeights) return model_.layer[unit.layer].unit_bytes;
  return model_.chunk_bytes();
}

bool Residency::weights_ready(std::uint32_t layer) const {
  return layer == model_.layers ? head_.resident : weights_[layer].resident;
}

bool Residency::kv_ready(std::uint32_t context, std::uint32_t layer, std::uint32_t position) const {
  const auto found = kv_.find(context);
  if (found == kv_.end()) return true;
  const auto& chunks = found->second[layer];
  const auto count = static_cast<std::uint32_t>(chunks.size());
  const std::uint32_t first =
      model_.layer[layer].first_visible(position) / model_.chunk_layout().tokens;
  for (std::uint32_t chunk = first; chunk < count; ++chunk) {
    const UnitRecord& record = chunks[chunk];
    if (record.resident) continue;
    if (!read_in_place(actors::kv_unit(context, layer, chunk), record, position)) return false;
  }
  return true;
}

bool Residency::read_in_place(UnitId unit, const UnitRecord& record,
                              std::uint32_t position) const noexcept {
  if (record.resident || record.moving || !record.compressed) return false;
  const std::uint64_t end = (std::uint64_t{unit.chunk} + 1) * model_.chunk_layout().tokens;
  return !record.compressed->in_place.empty() && end <= position;
}

std::vector<actors::EncodedChunk> Residency::chunks_in_place(std::uint32_t context,
                                                             std::uint32_t position) const {
  std::vector<actors::EncodedChunk> found;
  const auto layers = kv_.find(context);
  if (layers == kv_.end() || swap_.slots() == 0) return found;
  for (std::uint32_t layer = 0; layer < model_.layers; ++layer) {
    const auto& chunks = layers->second[layer];
    for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) {
      if (!read_in_place(actors::kv_unit(context, layer, chunk), chunks[chunk], position)) continue;
      found.push_back({layer, chunk, chunks[chunk].compressed->in_place});
    }
  }
  return found;
}

PlannerInput Residency::planner_input(const KvCache& cache, std::uint64_t encoded_bytes,
                                      std::uint64_t stored_bytes) const {
  PlannerInput input;
  input.layers = model_.layers;
  input.storage_free = slots_.free_bytes();
  for_each([&](UnitId unit, const UnitRecord& record) {
    PlannedUnit planned;
    planned.unit = unit;
    planned.bytes = unit_bytes(unit);
    if (unit.kind == UnitKind::kKv) {
      if (record.empty && !record.resident) return;
      const auto& context = cache.contexts().at(unit.context);
      if (!seen(unit, context.next_position())) return;  // never comes back
      const std::uint32_t tokens =
          std::max(1U, context.tokens_in_chunk(unit.chunk, model_.chunk_layout().tokens));
      const std::uint32_t whole = model_.chunk_layout().tokens;
      planned.stored_compressed = record.stored && record.stored->encoded &&
                                  record.stored->tier == actors::CodecTier::kMemory;
      planned.stored_bytes = record.stored && !planned.stored_compressed
                                 ? (record.stored->encoded ? record.stored->bytes : 0)
                                 : planned_stored_bytes(model_, stored_bytes, tokens);
      planned.compressed_bytes = record.compressed           ? record.compressed->slot.bytes
                                 : planned.stored_compressed ? record.stored->bytes
                                                             : encoded_bytes * tokens / whole;
      planned.compressed_clean = record.compressed.has_value();
      planned.stored_clean = record.stored.has_value();
      planned.stored_last = record.stored && record.stored->stage == EvictionStage::kCompKv;
    }
    planned.place = record.resident     ? UnitPlace::kResident
                    : record.compressed ? UnitPlace::kCompressed
                    : record.stored     ? UnitPlace::kStored
                                        : UnitPlace::kDropped;
    input.units.push_back(planned);
  });
  return input;
}

StatusReport Residency::totals() const {
  StatusReport report;
  for_each([&](UnitId unit, const UnitRecord& record) {
    StatusReport::State& state = record.resident     ? report.resident
                                 : record.compressed ? report.compressed
                                 : record.stored     ? report.stored
                                                     : report.dropped;
    const std::uint64_t bytes = unit_bytes(unit);
    ++state.units;
    state.bytes += bytes;
    (unit.kind == UnitKind::kKv ? report.kv_bytes : report.weights_bytes) += bytes;
  });
  report.footprint_bytes = report.weights_bytes + report.kv_bytes;
  report.memory_swap_bytes = swap_.held_bytes();
  report.swap_file_bytes = slots_.file_bytes();
  if (report.footprint_bytes > 0) {
    report.remaining_percent = 100.0 *
                               static_cast<double>(report.resident.bytes + swap_.held_bytes()) /
                               static_cast<double>(report.footprint_bytes);
  }
  return report;
}

std::uint64_t Residency::kv_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for_each([&](UnitId unit, const UnitRecord&) {
    if (unit.kind == UnitKind::kKv) bytes += model_.chunk_bytes();
  });
  return bytes;
}

std::uint64_t Residency::footprint_bytes() const noexcept {
  return model_.weights_bytes() + kv_bytes();
}

}  // namespace mzcache::engine
