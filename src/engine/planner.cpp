#include "engine/planner.h"

#include <cstdlib>
#include <optional>
#include <set>
#include <tuple>

#include "engine/planner_times.h"

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

// One Evict being planned: units in eviction order, what is left of the budgets, and what the two
// restore paths owe so far. r's fraction is nowhere counted: pairing compressed chunks to a dropped
// weight unit until the paths balance carries it from one plan to the next.
class Planning {
 public:
  Planning(const PlannerInput& input, const PlannerOptions& options)
      : input_(input),
        options_(options),
        memory_free_(input.memory_swap_free),
        storage_free_(input.storage_free) {
    items_.reserve(input.units.size());
    for (const PlannedUnit& unit : input.units) {
      items_.push_back({&unit, unit_times(unit, input.profile, options), sort_key(unit.unit)});
    }
    std::sort(items_.begin(), items_.end(),
              [](const Item& a, const Item& b) { return a.key < b.key; });
    for (std::size_t i = 0; i < items_.size(); ++i) take_stock(i);
  }

  EvictionPlan run(std::uint64_t bytes) {
    while (plan_.freed_bytes < bytes && next_step()) {
    }
    plan_.restore_memory_s = static_cast<double>(owed_.memory_unpriced) * 1e-12;
    plan_.restore_storage_s = static_cast<double>(owed_.storage) * 1e-12;
    return std::move(plan_);
  }

 private:
  using SortKey = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, int>;
  struct Item {
    const PlannedUnit* unit;
    UnitTimes times;
    SortKey key;
    std::optional<std::size_t> step = std::nullopt;  // the step of this plan that names it
  };

  // Ascending in the order units leave: by (layer, context, chunk), the head as the last layer.
  [[nodiscard]] SortKey sort_key(const UnitId& unit) const {
    const auto kind = static_cast<int>(unit.kind);
    switch (options_.order) {
      case EvictionOrder::kBackwardOut:
        return {0, ~std::uint64_t{unit.layer}, ~std::uint64_t{unit.context},
                ~std::uint64_t{unit.chunk}, kind};
      case EvictionOrder::kForwardOut:
        return {0, unit.layer, unit.context, unit.chunk, kind};
      case EvictionOrder::kRandomOut:
        return {hash_unit(options_.seed, unit), unit.layer, unit.context, unit.chunk, kind};
    }
    return {};
  }

  void take_stock(std::size_t index) {
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

  [[nodiscard]] static RestoreForm stored_form(const Item& item) {
    return item.unit->stored_compressed ? RestoreForm::kStorageCompressed : RestoreForm::kStorage;
  }
  // What sending a resident chunk to storage makes of it.
  [[nodiscard]] static RestoreForm form_when_stored(const Item& item) {
    return item.unit->stored_clean ? stored_form(item) : RestoreForm::kStorage;
  }

  [[nodiscard]] bool memory_closed() const {
    return options_.lossless_only || options_.paths == EvictionPaths::kStorage;
  }
  [[nodiscard]] bool fits_memory(const Item& item) const {
    if (options_.lossless_only) return false;
    if (item.unit->compressed_clean) return true;
    return item.unit->compressed_bytes < item.unit->bytes &&
           item.unit->compressed_bytes <= memory_free_;
  }
  [[nodiscard]] bool fits_storage(const Item& item) const {
    return item.unit->stored_clean || item.unit->bytes <= storage_free_;
  }

  static void spend(std::uint64_t& budget, std::uint64_t bytes) {
    if (budget != kUnlimited) budget -= bytes;
  }

  bool next_step() {
    const bool weights_left = next_weights_ < weights_.size();
    if (next_kv_ < kv_.size()) {
      const Item& chunk = items_[kv_[next_kv_]];
      const Picoseconds threshold = memory_closed() ? 0 : weights_total_;
      if (kv_left_ > threshold) {
        if (balance_chunk(chunk, EvictionStage::kKvOnly)) return true;
      } else if (!weights_left) {  // chunks paired to the weight unit dropped last
        if (balance_chunk(chunk, EvictionStage::kKvAndW)) return true;
      } else if (fits_memory(chunk)) {
        kv_and_weights();
        return true;
      }
    }
    if (weights_left) {
      drop_weights(EvictionStage::kWOnly);
      return true;
    }
    return comp_kv();
  }

  // One chunk to the path that would then finish earlier; false where it fits nowhere.
  bool balance_chunk(const Item& chunk, EvictionStage stage) {
    const bool memory = fits_memory(chunk);
    const bool storage = fits_storage(chunk);
    if (!memory && !storage) return false;
    bool to_memory = memory;
    if (memory && storage) {
      to_memory = options_.paths == EvictionPaths::kMemory ||
                  (options_.paths == EvictionPaths::kHybrid && prefers_memory(chunk));
    }
    move_chunk(stage, to_memory);
    return true;
  }

  // Decided as if a kept encoded form in the swap file were not there: it came from CompKV, whose
  // chunks were compressed first, and a second identical Evict shall find the same way.
  [[nodiscard]] bool prefers_memory(const Item& chunk) const {
    PathTimes memory = owed_;
    memory.add(chunk.times, RestoreForm::kMemory);
    PathTimes storage = owed_;
    storage.add(chunk.times, RestoreForm::kStorage);
    const PlannedUnit& unit = *chunk.unit;
    const bool stored_clean = unit.stored_clean && !unit.stored_compressed;
    if (unit.compressed_clean != stored_clean) {  // a copy that costs nothing, if balance bears it
      const PathTimes& clean = unit.compressed_clean ? memory : storage;
      const Picoseconds bearable = std::max(chunk.times.decode_priced, chunk.times.read);
      if (std::abs(clean.difference()) <= bearable) return unit.compressed_clean;
    }
    return memory.longer() <= storage.longer();
  }

  // A weight unit where the memory path owes as much as storage, else a chunk paired to the last
  // one. So the paths differ by at most the unit dropped last.
  void kv_and_weights() {
    if (owed_.difference() > 0) {
      move_chunk(EvictionStage::kKvAndW, true);
    } else {
      drop_weights(EvictionStage::kKvAndW);
    }
  }

  void move_chunk(EvictionStage stage, bool to_memory) {
    const std::size_t index = kv_[next_kv_++];
    Item& item = items_[index];
    kv_left_ -= item.times.decode_priced;
    std::uint64_t freed = item.unit->bytes;
    if (to_memory) {
      if (!item.unit->compressed_clean) {
        spend(memory_free_, item.unit->compressed_bytes);
        freed -= item.unit->compressed_bytes;
      }
      compressed_.insert(index);
      owed_.add(item.times, RestoreForm::kMemory);
    } else {
      if (!item.unit->stored_clean) spend(storage_free_, item.unit->bytes);
      owed_.add(item.times, form_when_stored(item));
    }
    add_step(item, to_memory ? UnitPlace::kCompressed : UnitPlace::kStored, stage, freed);
  }

  void drop_weights(EvictionStage stage) {
    Item& item = items_[weights_[next_weights_++]];
    owed_.add(item.times, RestoreForm::kStorage);
    add_step(item, UnitPlace::kDropped, stage, item.unit->bytes);
  }

  // The rearmost compressed chunk that fits goes to the swap file.
  bool comp_kv() {
    for (const std::size_t index : compressed_) {
      Item& item = items_[index];
      const std::uint64_t bytes = item.unit->compressed_bytes;
      if (!item.unit->stored_clean) {
        if (bytes > storage_free_) continue;
        spend(storage_free_, bytes);
      }
      if (memory_free_ != kUnlimited) memory_free_ += bytes;
      owed_.add(item.times, RestoreForm::kMemory, -1);
      owed_.add(item.times,
                item.unit->stored_clean ? stored_form(item) : RestoreForm::kStorageCompressed);
      compressed_.erase(index);
      if (item.step) {  // compressed by this plan: one step does both
        EvictionStep& step = plan_.steps[*item.step];
        step.to = UnitPlace::kStored;
        step.stage = EvictionStage::kCompKv;
        step.bytes += bytes;
        plan_.freed_bytes += bytes;
      } else {
        add_step(item, UnitPlace::kStored, EvictionStage::kCompKv, bytes);
      }
      return true;
    }
    return false;
  }

  void add_step(Item& item, UnitPlace to, EvictionStage stage, std::uint64_t freed) {
    item.step = plan_.steps.size();
    plan_.steps.push_back({item.unit->unit, item.unit->place, to, stage, freed});
    plan_.freed_bytes += freed;
  }

  const PlannerInput& input_;
  const PlannerOptions& options_;
  std::uint64_t memory_free_;
  std::uint64_t storage_free_;
  std::vector<Item> items_;           // all units, in the order they leave
  std::vector<std::size_t> kv_;       // resident chunks; those before next_kv_ have left
  std::vector<std::size_t> weights_;  // resident weight units, likewise
  std::set<std::size_t> compressed_;
  std::size_t next_kv_ = 0;
  std::size_t next_weights_ = 0;
  Picoseconds kv_left_ = 0;        // decode time of the resident chunks: N_KV
  Picoseconds weights_total_ = 0;  // read time of all weight units: T
  PathTimes owed_;
  EvictionPlan plan_;
};

// Immutable, so thread-safe.
class FourStagePlanner final : public EvictionPlanner {
 public:
  explicit FourStagePlanner(const PlannerOptions& options) : options_(options) {}
  [[nodiscard]] EvictionPlan plan(const PlannerInput& input, std::uint64_t bytes) const override {
    return Planning(input, options_).run(bytes);
  }

 private:
  PlannerOptions options_;
};

}  // namespace

std::unique_ptr<EvictionPlanner> make_planner(const PlannerOptions& options) {
  return std::make_unique<FourStagePlanner>(options);
}

}  // namespace mzcache::engine
