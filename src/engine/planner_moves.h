// The moves an eviction plan is made of, and what they cost: units in the order they leave, what is
// left of the budgets, what the two restore paths owe. Which move comes next is the rules' business
// (planner_stages.h, planner_optimal.h).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "engine/planner.h"
#include "engine/planner_times.h"

namespace mzcache::engine {

// One Evict being planned. For one thread.
class PlannerMoves {
 public:
  struct Item {
    const PlannedUnit* unit;
    UnitTimes times;
    // Ascending in the order units leave: (layer, context, chunk), the head as the last layer.
    std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, int> key;
    std::optional<std::size_t> step = std::nullopt;  // the step of this plan that names it
  };

  PlannerMoves(const PlannerInput& input, const PlannerOptions& options);

  // What is still resident, next to leave first; and indices of the chunks held encoded in memory.
  [[nodiscard]] bool chunks_left() const noexcept { return next_kv_ < kv_.size(); }
  [[nodiscard]] bool weights_left() const noexcept { return next_weights_ < weights_.size(); }
  [[nodiscard]] const Item& next_chunk() const { return items_[kv_[next_kv_]]; }
  [[nodiscard]] const std::vector<std::size_t>& chunks() const noexcept { return kv_; }
  [[nodiscard]] const std::vector<std::size_t>& weights() const noexcept { return weights_; }
  [[nodiscard]] const std::set<std::size_t>& compressed() const noexcept { return compressed_; }
  [[nodiscard]] const Item& item(std::size_t index) const { return items_[index]; }

  [[nodiscard]] bool fits_memory(const Item& chunk, std::uint64_t memory_free) const;
  [[nodiscard]] bool fits_memory(const Item& chunk) const {
    return fits_memory(chunk, memory_free_);
  }
  [[nodiscard]] bool fits_storage(const Item& chunk) const {
    return chunk.unit->stored_clean || chunk.unit->bytes_when_stored() <= storage_free_;
  }
  // What sending a resident chunk to storage makes of it: a clean copy decides.
  [[nodiscard]] static RestoreForm form_when_stored(const Item& chunk) {
    return chunk.unit->stored_clean ? stored_form(chunk) : RestoreForm::kStorage;
  }

  // What moving a chunk from the in-memory swap to storage makes of it, and what it then takes
  // there. One that is still resident when the plan is made may be encoded for storage instead,
  // where both paths, which owe `others` beside it, then end sooner, or where only that fits.
  struct Moved {
    RestoreForm form = RestoreForm::kStorageCompressed;
    std::uint64_t grows = 0;
  };
  [[nodiscard]] static Moved when_moved(const Item& chunk, const PathTimes& others,
                                        std::uint64_t storage_free);

  void compress_chunk(EvictionStage stage);
  void store_chunk(EvictionStage stage);
  void drop_weights(EvictionStage stage);
  // The rearmost compressed chunk that fits goes to the swap file; false where none does.
  bool store_compressed();
  // The head, if it is the next weight unit, leaves after the layers.
  void defer_head();

  [[nodiscard]] const PathTimes& owed() const noexcept { return owed_; }
  [[nodiscard]] Picoseconds chunks_decode_time() const noexcept { return kv_left_; }       // N_KV
  [[nodiscard]] Picoseconds weights_read_time() const noexcept { return weights_total_; }  // T
  [[nodiscard]] std::uint64_t memory_free() const noexcept { return memory_free_; }
  [[nodiscard]] std::uint64_t storage_free() const noexcept { return storage_free_; }
  [[nodiscard]] std::uint64_t freed() const noexcept { return plan_.freed_bytes; }
  [[nodiscard]] EvictionPlan finish() &&;

 private:
  void take_stock(std::size_t index);
  Item& take_chunk();
  [[nodiscard]] static RestoreForm stored_form(const Item& chunk);
  void add_step(Item& item, UnitPlace to, EvictionStage stage, std::uint64_t freed);

  std::uint64_t memory_free_;
  std::uint64_t storage_free_;
  bool memory_path_;                  // the codec may be used
  std::vector<Item> items_;           // all units, in the order they leave
  std::vector<std::size_t> kv_;       // resident chunks; those before next_kv_ have left
  std::vector<std::size_t> weights_;  // resident weight units, likewise
  std::set<std::size_t> compressed_;
  std::size_t next_kv_ = 0;
  std::size_t next_weights_ = 0;
  Picoseconds kv_left_ = 0;        // decode time of the resident chunks
  Picoseconds weights_total_ = 0;  // read time of all weight units
  PathTimes owed_;
  EvictionPlan plan_;
};

}  // namespace mzcache::engine
