#include "engine/evaluation_policy.h"

#include <algorithm>
#include <utility>

namespace mzcache::engine {
namespace {

std::vector<EvaluationPolicy> make_policies() {
  std::vector<EvaluationPolicy> policies(9);
  auto named = [next = policies.begin()](const char* name) mutable -> EvaluationPolicy& {
    next->name = name;
    return *next++;
  };
  named("mzcache");
  EvaluationPolicy& baseline = named("partial-offload");
  baseline.partial_offload = baseline.allocate_first = baseline.compute_last = true;
  EvaluationPolicy& none = named("no-overlap");
  none.allocate_first = none.compute_last = true;
  named("allocation-reload").compute_last = true;
  named("reload-prefill").allocate_first = true;
  named("forward-out").order = EvictionOrder::kForwardOut;
  named("random-out").order = EvictionOrder::kRandomOut;
  named("memory-only").paths = EvictionPaths::kMemory;
  named("storage-only").paths = EvictionPaths::kStorage;
  return policies;
}

const std::vector<EvaluationPolicy>& policies() {
  static const std::vector<EvaluationPolicy> all = make_policies();
  return all;
}

// A planner one of whose two places is closed.
class OnePath final : public EvictionPlanner {
 public:
  OnePath(std::unique_ptr<EvictionPlanner> planner, EvictionPaths paths)
      : planner_(std::move(planner)), paths_(paths) {}
  [[nodiscard]] EvictionPlan plan(const PlannerInput& input, std::uint64_t bytes) const override {
    PlannerInput closed = input;
    if (paths_ == EvictionPaths::kMemory) closed.storage_free = 0;
    if (paths_ == EvictionPaths::kStorage) closed.memory_swap_free = 0;
    return planner_->plan(closed, bytes);
  }

 private:
  std::unique_ptr<EvictionPlanner> planner_;
  EvictionPaths paths_;
};

}  // namespace

const std::vector<std::string>& evaluation_policy_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const EvaluationPolicy& policy : policies()) all.push_back(policy.name);
    return all;
  }();
  return names;
}

std::optional<EvaluationPolicy> evaluation_policy(std::string_view name) {
  const auto found = std::find_if(policies().begin(), policies().end(),
                                  [&](const auto& policy) { return policy.name == name; });
  if (found == policies().end()) return std::nullopt;
  return *found;
}

std::unique_ptr<EvictionPlanner> make_planner(const EvaluationPolicy& policy,
                                              PlannerOptions options) {
  if (policy.partial_offload) return make_partial_offload_planner();
  options.order = policy.order;
  options.paths = policy.paths;
  auto planner = make_planner(options);
  if (policy.paths == EvictionPaths::kHybrid) return planner;
  return std::make_unique<OnePath>(std::move(planner), policy.paths);
}

void set_overlaps(const EvaluationPolicy& policy, EngineOptions& options) {
  options.allocate_first = policy.allocate_first;
  options.compute_last = policy.compute_last;
}

}  // namespace mzcache::engine
