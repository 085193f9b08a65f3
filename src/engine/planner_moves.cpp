#include "engine/planner_moves.h"

#include <algorithm>
#include <utility>

namespace mzcache::engine {
namespace {

using actors::UnitId;
using actors::UnitKind;

constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

std::uint64_t mix(std::uint64_t value) {  // splitmix64's finaliser
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

std::uint64_t hash_unit(std::uint64_t seed, const UnitId& unit) {
  std::uint64_t h = mix(seed);
  h = mix(h ^ static_cast<std::uint64_t>(unit.kind));
  h = mix(h ^ (std::uint64_t{unit.layer} << 32 | unit.context));
  return mix(h ^ unit.chunk);
}

decltype(PlannerMoves::Item::key) leaving_key(const PlannerOptions& options, const UnitId& unit) {
  const auto kind = static_cast<int>(unit.kind);
  switch (options.order) {
    case EvictionOrder::kBackwardOut:
    case EvictionOrder::kOptimal:
      return {0, ~std::uint64_t{unit.layer}, ~std::uint64_t{unit.context},
              ~std::uint64_t{unit.chunk}, kind};
    case EvictionOrder::kForwardOut:
      return {0, unit.layer, unit.context, unit.chunk, kind};
    case EvictionOrder::kRandomOut:  // a unit's turn depends on nothing but the seed and itself
      return {hash_unit(options.seed, unit), unit.layer, unit.context, unit.chunk, kind};
  }
  return {};
}

void spend(std::uint64_t& budget, std::uint64_t bytes) {
  if (budget != kUnlimited) budget -= bytes;
}

}  // namespace

PlannerMoves::PlannerMoves(const PlannerInput& input, const PlannerOptions& options)
    : memory_free_(input.memory_swap_free),
      storage_free_(input.storage_free),
      memory_path_(!options.memory_closed) {
  items_.reserve(input.units.size());
  for (const PlannedUnit& unit : input.units) {
    items_.push_back(
        {&unit, unit_times(unit, input.profile, options), leaving_key(options, unit.unit)});
  }
  std::sort(items_.begin(), items_.end(),
            [](const Item& a, const Item& b) { return a.key < b.key; });
  for (std::size_t i = 0; i < items_.size(); ++i) take_stock(i);
}

void PlannerMoves::take_stock(std::size_t index) {
  const Item& item = items_[index];
  const bool kv = item.unit->unit.kind == UnitKind::kKv;
  if (!kv) weights_total_ += item.times.read;
  switch (item.unit->place) {
    case UnitPlace::kResident:
      (kv ? kv_ : weights_).push_back(index);
      if (kv) kv_left_ += item.times.decode_priced;
      break;
    case UnitPlace::kCompressed:
      compressed_.insert(index);
      owed_.add(item.times, RestoreForm::kMemory);
      break;
    case UnitPlace::kStored:
      owed_.add(item.times, stored_form(item));
      break;
    case UnitPlace::kDropped:  // weights are read again; a dropped chunk is recomputed
      if (!kv) owed_.add(item.times, RestoreForm::kStorage);
      break;
  }
}

RestoreForm PlannerMoves::stored_form(const Item& chunk) {
  return chunk.unit->stored_compressed ? RestoreForm::kStorageCompressed : RestoreForm::kStorage;
}

bool PlannerMoves::fits_memory(const Item& chunk, std::uint64_t memory_free) const {
  if (!memory_path_) return false;
  if (chunk.unit->compressed_clean) return true;
  return chunk.unit->compressed_bytes < chunk.unit->bytes &&
         chunk.unit->compressed_bytes <= memory_free;
}

PlannerMoves::Item& PlannerMoves::take_chunk() {
  Item& item = items_[kv_[next_kv_++]];
  kv_left_ -= item.times.decode_priced;
  return item;
}

void PlannerMoves::compress_chunk(EvictionStage stage) {
  const std::size_t index = kv_[next_kv_];
  Item& item = take_chunk();
  std::uint64_t freed = item.unit->bytes;
  if (!item.unit->compressed_clean) {  // a kept form already counts as held
    spend(memory_free_, item.unit->compressed_bytes);
    freed -= item.unit->compressed_bytes;
  }
  compressed_.insert(index);
  owed_.add(item.times, RestoreForm::kMemory);
  add_step(item, UnitPlace::kCompressed, stage, freed);
}

void PlannerMoves::store_chunk(EvictionStage stage) {
  Item& item = take_chunk();
  const bool written = !item.unit->stored_clean;
  if (written) spend(storage_free_, item.unit->bytes_when_stored());
  owed_.add(item.times, form_when_stored(item));
  add_step(item, UnitPlace::kStored, stage, item.unit->bytes);
  plan_.steps.back().encoded = written && item.unit->stored_bytes > 0;
}

void PlannerMoves::drop_weights(EvictionStage stage) {
  Item& item = items_[weights_[next_weights_++]];
  owed_.add(item.times, RestoreForm::kStorage);
  add_step(item, UnitPlace::kDropped, stage, item.unit->bytes);
}

PlannerMoves::Moved PlannerMoves::when_moved(const Item& chunk, const PathTimes& others,
                                             std::uint64_t storage_free) {
  const PlannedUnit& unit = *chunk.unit;
  if (unit.stored_clean) return {stored_form(chunk), 0};
  const Moved as_it_is{RestoreForm::kStorageCompressed, unit.compressed_bytes};
  const bool encoded_there = unit.place == UnitPlace::kCompressed || unit.compressed_clean;
  if (encoded_there || unit.stored_bytes == 0 || unit.stored_bytes > storage_free) return as_it_is;
  PathTimes moved = others;
  moved.add(chunk.times, RestoreForm::kStorageCompressed);
  PathTimes encoded = others;
  encoded.add(chunk.times, RestoreForm::kStorage);
  if (as_it_is.grows <= storage_free && encoded.longer() >= moved.longer()) return as_it_is;
  return {RestoreForm::kStorage, unit.stored_bytes};
}

bool PlannerMoves::store_compressed() {
  for (const std::size_t index : compressed_) {
    Item& item = items_[index];
    const std::uint64_t bytes = item.unit->compressed_bytes;
    PathTimes others = owed_;
    others.add(item.times, RestoreForm::kMemory, -1);
    const Moved moved = when_moved(item, others, storage_free_);
    if (moved.grows > storage_free_) continue;
    spend(storage_free_, moved.grows);
    if (memory_free_ != kUnlimited) memory_free_ += bytes;
    owed_ = others;
    owed_.add(item.times, moved.form);
    compressed_.erase(index);
    if (item.step) {  // compressed by this plan: one step does both
      EvictionStep& step = plan_.steps[*item.step];
      step.to = UnitPlace::kStored;
      step.stage = EvictionStage::kCompKv;
      step.bytes += bytes;
      step.encoded = moved.form == RestoreForm::kStorage && moved.grows > 0;
      plan_.freed_bytes += bytes;
    } else {
      add_step(item, UnitPlace::kStored, EvictionStage::kCompKv, bytes);
    }
    return true;
  }
  return false;
}

void PlannerMoves::defer_head() {
  const auto next = weights_.begin() + static_cast<std::ptrdiff_t>(next_weights_);
  if (next == weights_.end() || items_[*next].unit->unit.kind != UnitKind::kHead) return;
  std::rotate(next, next + 1, weights_.end());
}

void PlannerMoves::add_step(Item& item, UnitPlace to, EvictionStage stage, std::uint64_t freed) {
  item.step = plan_.steps.size();
  plan_.steps.push_back({item.unit->unit, item.unit->place, to, stage, freed});
  plan_.freed_bytes += freed;
}

EvictionPlan PlannerMoves::finish() && {
  plan_.restore_memory_s = static_cast<double>(owed_.memory_unpriced) * 1e-12;
  plan_.restore_storage_s = static_cast<double>(owed_.storage) * 1e-12;
  return std::move(plan_);
}

}  // namespace mzcache::engine
