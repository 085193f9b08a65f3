// Seeded instances for the planner's property tests, and an independent account of what a plan
// does to a residency.
#pragma once

#include <cstdint>
#include <map>
#include <random>

#include "engine/planner.h"

namespace mzcache::engine::test {

struct Instance {
  PlannerInput input;
  PlannerOptions options;
  std::uint64_t held_bytes = 0;  // resident and compressed: the most an Evict can free
};

struct InstanceKind {
  bool full_residency = false;
  bool budgets = true;
  bool any_paths = true;      // else hybrid with a codec that saves
  bool storage_codec = true;  // in half of them
};

Instance make_instance(const InstanceKind& kind, std::mt19937_64& random);
std::uint64_t held_bytes(const PlannerInput& input);

// The input as it is after the plan's steps were taken; budgets too.
PlannerInput apply(const PlannerInput& input, const EvictionPlan& plan);

// Whether `before` leaves earlier than `after`; both of one kind (KV or weight units). random-out
// orders by a hash of (seed, unit), written down a second time here.
bool leaves_before(const PlannerOptions& options, const actors::UnitId& before,
                   const actors::UnitId& after);

std::map<actors::UnitId, UnitPlace> places(const PlannerInput& input);

}  // namespace mzcache::engine::test
