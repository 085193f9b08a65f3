// The policies that the evaluation compares (paper §6): what of a restore may overlap, in which
// order units leave and by which paths, and the baseline.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine_state.h"
#include "engine/planner.h"

namespace mzcache::engine {

struct EvaluationPolicy {
  std::string name;
  EvictionOrder order = EvictionOrder::kBackwardOut;
  EvictionPaths paths = EvictionPaths::kHybrid;
  bool partial_offload = false;  // whole layers, to storage
  bool allocate_first = false;
  bool compute_last = false;
};

// mzcache, partial-offload, no-overlap, allocation-reload, reload-prefill, forward-out, random-out,
// memory-only, storage-only.
[[nodiscard]] const std::vector<std::string>& evaluation_policy_names();
// Nothing where there is no such policy.
[[nodiscard]] std::optional<EvaluationPolicy> evaluation_policy(std::string_view name);

// `options`: of the machine; order and paths are the policy's. memory-only never writes to the swap
// file, storage-only keeps nothing compressed.
[[nodiscard]] std::unique_ptr<EvictionPlanner> make_planner(const EvaluationPolicy& policy,
                                                            PlannerOptions options);
void set_overlaps(const EvaluationPolicy& policy, EngineOptions& options);

}  // namespace mzcache::engine
