// Evicting (paper §4.3, backward-out): carries out the planner's steps until enough is freed, and
// plans again from the true residency where codec sizes, segments or failures made a difference.
//
// Needs no memory to speak of: a chunk is released as soon as it is encoded or written; steps that
// need no work go first. A path that fails (disk full, no memory) is closed for the rest of this
// eviction and the other one takes over. Invariant: a unit is released only when its content is
// safe in another form, or can be had from the model file.
//
// With a codec for storage, chunks that leave to the file are encoded into staging and stay in
// their buffers until they are written from there: no more of it than a few segments, and none once
// the eviction is over. Where there is none to be had they are written as they lie.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "actors/buffer_pool.h"
#include "engine/encoded_sizes.h"
#include "engine/engine_state.h"
#include "mzcache/reports.h"

namespace mzcache::engine {

class Evicting {
 public:
  // Chunks that may have staging at once.
  static constexpr std::size_t kStagedMax = 32;

  explicit Evicting(EngineState& state);

  // Everything else is quiet; `accepted` is when the message came. deadline 0: none.
  void begin(std::uint64_t bytes, actors::Nanoseconds accepted, actors::Nanoseconds deadline);
  // Launches what can be launched. True once the eviction is over; report() is then final.
  [[nodiscard]] bool advance();

  void on(const actors::ChunkCompressed& message);
  void on(const actors::ChunkWritten& message);
  void on(const actors::ScratchReleased&) noexcept { scratch_on_way_ = false; }

  [[nodiscard]] const EvictReport& report() const noexcept { return report_; }

 private:
  // Chunks on their way to the encoders or the disk: two per worker keep it busy where they are
  // large.
  static constexpr std::size_t kPerWorker = 2;
  // Small ones are worked on faster than messages come and go, so more of them are on their way: as
  // many as make up half a segment of the in-memory swap once encoded.
  static constexpr std::uint64_t kEncodedOnWay = actors::kSegmentBytes / 2;

  // A chunk being encoded for the file.
  struct Encoding {
    EvictionStep step;
    actors::StagingLease staging;
  };

  [[nodiscard]] std::uint64_t freed() const noexcept;
  [[nodiscard]] bool make_plan();
  [[nodiscard]] PlannerInput planner_input() const;
  [[nodiscard]] std::uint64_t still_wanted() const noexcept;
  [[nodiscard]] bool free_unseen();
  [[nodiscard]] bool drop_kept_forms(const EvictionPlan& plan);
  [[nodiscard]] bool take_steps(const EvictionPlan& plan);
  [[nodiscard]] bool drop_recomputed(const EvictionPlan& plan);
  [[nodiscard]] bool late() const noexcept;
  void drop_what_is_late();
  [[nodiscard]] bool work_under_way() const noexcept;
  [[nodiscard]] std::size_t compress_window() const noexcept;
  [[nodiscard]] std::size_t write_window() const noexcept;
  void launch();
  [[nodiscard]] std::uint32_t tokens_of(actors::UnitId unit) const;
  void launch_compress(actors::UnitId unit, std::uint64_t room);
  [[nodiscard]] bool staging_is_full() const noexcept;
  void launch_encode(const EvictionStep& step, std::uint64_t room);
  void write_staged(const actors::ChunkCompressed& message, Encoding encoding);
  void launch_write(const EvictionStep& step);
  [[nodiscard]] bool take_slot(StoredForm& form, actors::UnitId unit);
  void send_write(actors::WriteChunk message);
  void count_encoded(const actors::ChunkCompressed& message, EncodedSizes& sizes);
  [[nodiscard]] std::uint64_t gone_bytes() const noexcept;
  void let_go(actors::UnitId unit);
  void release_gone();
  void finish();

  EngineState& state_;
  EvictReport report_;
  actors::Nanoseconds accepted_{0};
  actors::Nanoseconds deadline_{0};  // point in time; 0: none
  std::uint64_t wanted_bytes_ = 0;   // as asked; where that is the footprint, all that is held
  std::uint64_t held_at_start_ = 0;
  std::uint64_t resident_at_start_ = 0;  // of the process
  bool room_first_ = false;              // encoding waits for memory on its way back
  bool wrote_ = false;                   // the writer holds staging
  bool scratch_on_way_ = false;          // back to the system
  bool memory_closed_ = false;
  bool storage_closed_ = false;
  std::deque<actors::UnitId> to_compress_;
  std::deque<EvictionStep> to_encode_;  // for the file
  std::deque<EvictionStep> to_write_;
  std::set<actors::UnitId> write_encoded_;    // once they are compressed
  std::vector<actors::UnitId> free_of_work_;  // of the plan: they go at once
  std::vector<actors::UnitId> gone_;          // safe elsewhere, to be released together
  std::map<actors::UnitId, MemorySwap::Slot> compressing_;
  std::map<actors::UnitId, Encoding> encoding_;
  std::map<actors::UnitId, StoredForm> writing_;
  std::size_t staged_ = 0;  // chunks that have staging, being encoded or written
  std::size_t next_compressor_ = 0;
  EncodedSizes sizes_;
  std::optional<EncodedSizes> stored_sizes_;  // where there is a codec for storage
  actors::BufferPool staging_;
};

}  // namespace mzcache::engine
