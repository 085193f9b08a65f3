// The residency map: where every unit is, and what forms of it exist. The single truth that plans,
// restores and reports are derived from; it changes only when something has really happened.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "actors/messages.h"
#include "actors/model_description.h"
#include "engine/kv_cache.h"
#include "engine/memory_swap.h"
#include "engine/planner.h"
#include "engine/swap_slots.h"
#include "mzcache/reports.h"

namespace mzcache::engine {

// An encoded chunk in the in-memory swap.
struct CompressedForm {
  MemorySwap::Slot slot;
  std::uint64_t checksum = 0;
  std::uint32_t token_count = 0;
  // Where attention may read the chunk as it lies; empty: it is decoded first.
  std::span<const std::byte> in_place;
};
// A chunk in the swap file, raw or encoded by the codec of `tier`.
struct StoredForm {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
  std::uint32_t token_count = 0;
  bool encoded = false;
  actors::CodecTier tier = actors::CodecTier::kMemory;
  EvictionStage stage = EvictionStage::kKvOnly;  // that sent it there
};

// A chunk has one form at most beside its buffer: one that is there is not made again, neither here
// nor in the other place. So what a lossy codec made of it is also what the buffer holds after a
// restore, whichever codec it was.
struct UnitRecord {
  bool resident = false;  // memory and content are there
  bool moving = false;    // being restored or evicted right now
  bool empty = true;      // KV: nothing was ever written, a fresh chunk will do
  bool unseen = false;    // KV: freed for good, no position to come looks at it
  std::optional<CompressedForm> compressed;
  std::optional<StoredForm> stored;

  [[nodiscard]] bool has_form() const noexcept { return compressed || stored; }
};

class Residency {
 public:
  Residency(const actors::ModelDescription& model, MemorySwap& swap, SwapSlots& slots);

  [[nodiscard]] UnitRecord& operator[](actors::UnitId unit) { return *find(unit); }
  [[nodiscard]] const UnitRecord& operator[](actors::UnitId unit) const { return *find(unit); }
  // nullptr where there is no such unit (any more).
  [[nodiscard]] UnitRecord* find(actors::UnitId unit) { return find_in(*this, unit); }
  [[nodiscard]] const UnitRecord* find(actors::UnitId unit) const { return find_in(*this, unit); }
  // Content and memory came, or went.
  void set_resident(actors::UnitId unit, bool resident);

  // Chunks of a context exist from here on / no longer. Shrinking forgets all forms.
  void set_chunks(std::uint32_t context, std::uint32_t chunks);
  // No position to come looks at the chunk: nothing of it is kept, and once it has left memory it
  // is no unit any more.
  void set_unseen(actors::UnitId unit);
  // Whether attention at `position` or later looks at the chunk.
  [[nodiscard]] bool seen(actors::UnitId chunk, std::uint32_t position) const noexcept;
  // The content of a chunk changes: what was saved of it is worth nothing.
  void forget_forms(actors::UnitId unit);
  void drop_compressed(UnitRecord& record);
  void drop_stored(UnitRecord& record);
  // Nothing is kept beside resident units.
  void drop_copies();

  // How a unit that is not resident comes back; nothing where its content is lost.
  [[nodiscard]] std::optional<actors::Origin> origin(actors::UnitId unit) const;
  [[nodiscard]] std::uint64_t unit_bytes(actors::UnitId unit) const noexcept;

  // Every unit in forward order: layer by layer, weights, then KV by context and chunk; the head
  // last. Chunks that were freed for good are none.
  template <class Visitor>
  void for_each(Visitor&& visit) {
    visit_all(*this, visit);
  }
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    visit_all(*this, visit);
  }

  // Whether computing from `position` on reads the chunk where it lies in the in-memory swap: all
  // of its positions come before.
  [[nodiscard]] bool read_in_place(actors::UnitId unit, const UnitRecord& record,
                                   std::uint32_t position) const noexcept;
  // The context's chunks that are, in forward order.
  [[nodiscard]] std::vector<actors::EncodedChunk> chunks_in_place(std::uint32_t context,
                                                                  std::uint32_t position) const;
  // All weights of a layer (layer = layers: the head); or all chunks of a context in a layer that
  // positions from `position` on look at: resident, or read in place.
  [[nodiscard]] bool weights_ready(std::uint32_t layer) const;
  [[nodiscard]] bool kv_ready(std::uint32_t context, std::uint32_t layer,
                              std::uint32_t position) const;
  // Whole chunks take so many bytes once encoded; `stored_bytes` 0: no codec for storage.
  [[nodiscard]] PlannerInput planner_input(const KvCache& cache, std::uint64_t encoded_bytes,
                                           std::uint64_t stored_bytes) const;
  [[nodiscard]] StatusReport totals() const;
  // Resident units + segments of the in-memory swap.
  [[nodiscard]] std::uint64_t held_bytes() const { return resident_bytes() + swap_.held_bytes(); }
  [[nodiscard]] std::uint64_t resident_bytes() const noexcept { return resident_bytes_; }
  [[nodiscard]] std::uint64_t footprint_bytes() const noexcept;
  [[nodiscard]] std::uint64_t kv_bytes() const noexcept;
  // Encoded forms of resident chunks.
  [[nodiscard]] std::uint64_t kept_bytes() const noexcept { return kept_bytes_; }
  void set_compressed(actors::UnitId unit, const CompressedForm& form);

 private:
  template <class Self>
  using RecordOf = std::conditional_t<std::is_const_v<Self>, const UnitRecord, UnitRecord>;

  template <class Self>
  static RecordOf<Self>* find_in(Self& self, actors::UnitId unit) {
    if (unit.kind == actors::UnitKind::kHead) return &self.head_;
    if (unit.layer >= self.model_.layers) return nullptr;
    if (unit.kind == actors::UnitKind::kWeights) return &self.weights_[unit.layer];
    const auto context = self.kv_.find(unit.context);
    if (context == self.kv_.end() || unit.chunk >= context->second[unit.layer].size()) {
      return nullptr;
    }
    return &context->second[unit.layer][unit.chunk];
  }
  template <class Self, class Visitor>
  static void visit_all(Self& self, Visitor& visit) {
    for (std::uint32_t layer = 0; layer < self.model_.layers; ++layer) {
      visit(actors::weights_unit(layer), self.weights_[layer]);
      for (auto& [context, layers] : self.kv_) {
        for (std::uint32_t chunk = 0; chunk < layers[layer].size(); ++chunk) {
          auto& record = layers[layer][chunk];
          if (record.unseen && !record.resident) continue;
          visit(actors::kv_unit(context, layer, chunk), record);
        }
      }
    }
    visit(actors::head_unit(self.model_.layers), self.head_);
  }

  const actors::ModelDescription& model_;
  MemorySwap& swap_;
  SwapSlots& slots_;
  std::uint64_t resident_bytes_ = 0;
  std::uint64_t kept_bytes_ = 0;
  std::vector<UnitRecord> weights_;
  UnitRecord head_;
  std::map<std::uint32_t, std::vector<std::vector<UnitRecord>>> kv_;  // context → layer → chunk
};

}  // namespace mzcache::engine
