#include "engine/planner_recompute.h"

#include <algorithm>
#include <map>

#include "engine/planner_times.h"

namespace mzcache::engine {
namespace {

using actors::UnitKind;

// What both paths need for all of the context's chunks, sharing them so that they end together.
double restore_s(const PlannerInput& input, const PlannerOptions& options, std::uint32_t context) {
  double decode = 0;
  double read = 0;
  double decode_stored = 0;
  for (const PlannedUnit& unit : input.units) {
    if (unit.unit.kind != UnitKind::kKv || unit.unit.context != context) continue;
    const UnitTimes times = unit_times(unit, input.profile, options);
    decode += static_cast<double>(times.decode_priced) * 1e-12;
    read += static_cast<double>(times.read) * 1e-12;
    decode_stored += static_cast<double>(times.decode_stored_priced) * 1e-12;
  }
  const bool memory = !options.memory_closed && options.paths != EvictionPaths::kStorage;
  const bool storage = options.paths != EvictionPaths::kMemory;
  if (!memory) return std::max(read, decode_stored);
  if (!storage || decode + read <= 0 || decode <= decode_stored) return decode;
  if (read <= decode_stored) return decode_stored;
  return decode * read / (decode + read - decode_stored);
}

// Memory that is free once nothing of the chunk is left.
std::uint64_t held_bytes(const PlannedUnit& unit) {
  const std::uint64_t kept = unit.compressed_clean ? unit.compressed_bytes : 0;
  if (unit.place == UnitPlace::kResident) return unit.bytes + kept;
  return unit.place == UnitPlace::kCompressed ? unit.compressed_bytes : 0;
}

void give_back(PlannerInput& input, const PlannedUnit& unit) {
  const auto add = [](std::uint64_t& budget, std::uint64_t bytes) {
    if (budget != ~0ULL) budget += bytes;
  };
  if (unit.place == UnitPlace::kCompressed || unit.compressed_clean) {
    add(input.memory_swap_free, unit.compressed_bytes);
  }
  if (unit.place == UnitPlace::kStored || unit.stored_clean) {
    add(input.storage_free,
        unit.stored_compressed ? unit.compressed_bytes : unit.bytes_when_stored());
  }
}

class Recomputed {
 public:
  Recomputed(PlannerInput& input, std::uint64_t bytes) : input_(input), bytes_(bytes) {}

  void drop(const PlannedContext& context) {
    // Columns of one chunk position, the rearmost layer first.
    std::map<std::uint32_t, std::vector<PlannedUnit>, std::greater<>> columns;
    for (const PlannedUnit& unit : input_.units) {
      if (unit.unit.kind != UnitKind::kKv || unit.unit.context != context.id) continue;
      columns[unit.unit.chunk].push_back(unit);
    }
    std::uint32_t from = context.tokens;
    for (auto& [chunk, units] : columns) {
      if (chosen_.freed_bytes >= bytes_ && !(context.whole && from < context.tokens)) break;
      from = std::min(from, chunk * context.chunk_tokens);
      std::sort(units.begin(), units.end(), [](const PlannedUnit& a, const PlannedUnit& b) {
        return a.unit.layer > b.unit.layer;
      });
      for (const PlannedUnit& unit : units) take(unit);
    }
    if (context.whole && from < context.tokens) from = 0;
    chosen_.recompute_s +=
        static_cast<double>(context.tokens - from) / input_.profile.prefill_tokens_per_s;
    std::erase_if(input_.units, [&](const PlannedUnit& unit) {
      return unit.unit.kind == UnitKind::kKv && unit.unit.context == context.id &&
             unit.unit.chunk * context.chunk_tokens >= from;
    });
  }

  [[nodiscard]] RecomputedChunks finish() && { return std::move(chosen_); }

 private:
  void take(const PlannedUnit& unit) {
    const std::uint64_t freed = held_bytes(unit);
    chosen_.steps.push_back(
        {unit.unit, unit.place, UnitPlace::kDropped, EvictionStage::kRecompute, freed});
    chosen_.freed_bytes += freed;
    give_back(input_, unit);
  }

  PlannerInput& input_;
  const std::uint64_t bytes_;
  RecomputedChunks chosen_;
};

}  // namespace

RecomputedChunks drop_recomputed(PlannerInput& input, const PlannerOptions& options,
                                 std::uint64_t bytes) {
  Recomputed recomputed(input, bytes);
  const double rate = input.profile.prefill_tokens_per_s;
  if (!options.recompute || !(rate > 0)) return {};
  // The last context first, as in the order backward-out.
  std::vector<PlannedContext> contexts = input.contexts;
  std::sort(contexts.begin(), contexts.end(),
            [](const PlannedContext& a, const PlannedContext& b) { return a.id > b.id; });
  for (const PlannedContext& context : contexts) {
    if (static_cast<double>(context.tokens) / rate < restore_s(input, options, context.id)) {
      recomputed.drop(context);
    }
  }
  return std::move(recomputed).finish();
}

}  // namespace mzcache::engine
