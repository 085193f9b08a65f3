// The eviction policy's seam: a pure function from sizes, residency, profile and bytes to steps
// (paper §4.3, Algorithm 1). It keeps no state besides what it is given.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "actors/units.h"
#include "mzcache/errors.h"

namespace mzcache::engine {

// kOptimal leaves backward too, but weighs the whole request at once instead of stage by stage
// (planner_optimal.h).
enum class EvictionOrder : std::uint8_t { kBackwardOut, kForwardOut, kRandomOut, kOptimal };
enum class EvictionPaths : std::uint8_t { kHybrid, kMemory, kStorage };

// Rates of the two restore paths, bytes of chunk or weights per second.
struct RestoreProfile {
  // Into fresh unit buffers. Weights are read in large requests from a file that is laid out in one
  // go, chunks in small ones from a file that grew: the two differ by a factor on some disks.
  double model_read_bytes_per_s = 2.5e9;
  double swap_read_bytes_per_s = 2.5e9;
  double decode_bytes_per_s = 6.0e9;  // of decoded (FP16) bytes, all workers together
  double allocate_bytes_per_s = 20.0e9;
  double decode_cpu_s_per_byte = 0;  // CPU time of decoding one decoded byte
  // The same of what the codec for storage encoded; a rate of 0: as the other codec.
  double storage_decode_bytes_per_s = 0;
  double storage_decode_cpu_s_per_byte = 0;
  double prefill_tokens_per_s = 0;  // of computing KV again; 0: not known
};

// Chunks in the in-memory swap are read where they lie: nothing is owed for them.
inline void decode_takes_no_time(RestoreProfile& profile) {
  profile.decode_bytes_per_s = std::numeric_limits<double>::infinity();
  profile.decode_cpu_s_per_byte = 0;
}

struct PlannerOptions {
  EvictionOrder order = EvictionOrder::kBackwardOut;
  EvictionPaths paths = EvictionPaths::kHybrid;
  std::uint64_t seed = 1;  // random-out
  double cpu_price = 0;    // 0 is the paper's rule
  std::uint32_t cores = 1;
  bool memory_closed = false;  // codec "none": chunks leave to the swap file only
  bool recompute = false;      // the third way back (planner_recompute.h)
};

// Where a unit is, as the planner sees it. At most one copy is the working one; `stored_clean` and
// `compressed_clean` say that a valid form is kept besides the resident one, so evicting to that
// place costs nothing.
enum class UnitPlace : std::uint8_t { kResident, kCompressed, kStored, kDropped };

struct PlannedUnit {
  actors::UnitId unit;
  UnitPlace place = UnitPlace::kResident;
  std::uint64_t bytes = 0;             // in a shared buffer
  std::uint64_t compressed_bytes = 0;  // in the in-memory swap (bound or running mean if not yet)
  bool stored_clean = false;
  bool compressed_clean = false;
  bool stored_compressed =
      false;                 // the stored form (working or clean) came from the in-memory swap
  bool stored_last = false;  // the last stage (CompKV) stored it
  // What the codec for storage makes of it (bound or running mean if not yet); 0: it is, or will
  // be, stored as in a shared buffer.
  std::uint64_t stored_bytes = 0;

  // In the swap file, where it goes there from a shared buffer.
  [[nodiscard]] std::uint64_t bytes_when_stored() const noexcept {
    return stored_bytes > 0 ? stored_bytes : bytes;
  }
};

// A conversation whose KV may be computed again from its tokens.
struct PlannedContext {
  std::uint32_t id = 0;
  std::uint32_t tokens = 0;  // that have KV
  std::uint32_t chunk_tokens = 0;
  bool whole = false;  // chunks its last positions looked at are gone: all again, or nothing
};

struct PlannerInput {
  std::uint32_t layers = 0;
  std::vector<PlannedUnit> units;        // any order; every unit of the model and its contexts
  std::vector<PlannedContext> contexts;  // none: nothing is computed again
  RestoreProfile profile;
  std::uint64_t memory_swap_free = ~0ULL;  // bytes the in-memory swap may still take
  std::uint64_t storage_free = ~0ULL;      // bytes the swap file may still take
};

enum class EvictionStage : std::uint8_t { kRecompute, kKvOnly, kKvAndW, kWOnly, kCompKv };

// One unit's move. A step of stage kCompKv leaves the chunk in the swap file in its encoded form;
// from kResident it means that encoding and writing happen in one go (the plan would compress the
// chunk and then need that room too), by the codec of either place. Moves for which a clean copy
// exists need no work.
struct EvictionStep {
  actors::UnitId unit;
  UnitPlace from = UnitPlace::kResident;
  UnitPlace to = UnitPlace::kDropped;
  EvictionStage stage = EvictionStage::kKvOnly;
  std::uint64_t bytes = 0;  // net bytes this step is expected to free
  bool encoded = false;     // to the swap file by the codec for storage
};

struct EvictionPlan {
  std::vector<EvictionStep> steps;  // in the order they are taken
  std::uint64_t freed_bytes = 0;    // expected sum
  double restore_memory_s = 0;      // what the two restore paths owe after the plan (unpriced)
  double restore_storage_s = 0;
  double recompute_s = 0;  // computing again what this plan drops
};

class EvictionPlanner {
 public:
  virtual ~EvictionPlanner() = default;
  // Frees at least `bytes`, or all that the budgets allow. Pure and thread-safe.
  [[nodiscard]] virtual EvictionPlan plan(const PlannerInput& input, std::uint64_t bytes) const = 0;
};

// The paper's four stages with a fractional r, which is carried by balancing what the two restore
// paths owe rather than by counting (so it follows from the residency alone); or, with
// EvictionOrder::kOptimal, the shortest restore time.
[[nodiscard]] std::unique_ptr<EvictionPlanner> make_planner(const PlannerOptions& options);
// The evaluation's baseline: whole layers, the last first, to storage only.
[[nodiscard]] std::unique_ptr<EvictionPlanner> make_partial_offload_planner();

}  // namespace mzcache::engine
