#include "sim/ttft.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace mzcache::sim {
namespace {

constexpr std::uint32_t kContext = 1;
constexpr std::uint64_t kEventsMax = 50'000'000;

// The first token is all that is asked for.
class FirstToken final : public engine::TokenSource {
 public:
  [[nodiscard]] Decision next(std::span<const float>, std::span<const Token>) noexcept override {
    return {0, StopReason::kLength};
  }
};

// What a policy changes: the plan, and which stages overlap.
struct Policy {
  engine::PlannerOptions planner;
  bool partial_offload = false;
  bool allocate_first = false;
  bool compute_last = false;
};

std::optional<Policy> policy_of(std::string_view name) {
  Policy policy;
  if (name == "mzcache") return policy;
  if (name == "partial-offload") {
    policy.partial_offload = policy.allocate_first = policy.compute_last = true;
    return policy;
  }
  if (name == "no-overlap") {
    policy.allocate_first = policy.compute_last = true;
    return policy;
  }
  if (name == "allocation-reload") {
    policy.compute_last = true;
    return policy;
  }
  if (name == "reload-prefill") {
    policy.allocate_first = true;
    return policy;
  }
  if (name == "forward-out") {
    policy.planner.order = engine::EvictionOrder::kForwardOut;
    return policy;
  }
  if (name == "random-out") {
    policy.planner.order = engine::EvictionOrder::kRandomOut;
    return policy;
  }
  if (name == "memory-only") {
    policy.planner.paths = engine::EvictionPaths::kMemory;
    return policy;
  }
  if (name == "storage-only") {
    policy.planner.paths = engine::EvictionPaths::kStorage;
    return policy;
  }
  return std::nullopt;
}

class Experiment {
 public:
  Experiment(const MachineModel& machine, const actors::ModelDescription& model,
             const TtftOptions& options, std::uint32_t context_tokens, const Policy& policy)
      : options_(options) {
    engine::EngineOptions engine;
    engine.swap_file_max = std::uint64_t{1} << 40;
    engine.swap_range_bytes = std::uint64_t{8} << 30;
    engine.allocate_first = policy.allocate_first;
    engine.compute_last = policy.compute_last;
    if (policy.planner.paths == engine::EvictionPaths::kMemory) engine.swap_file_max = 0;
    if (policy.planner.paths == engine::EvictionPaths::kStorage) engine.memory_swap_max_percent = 0;
    auto planner = policy.partial_offload ? engine::make_partial_offload_planner()
                                          : engine::make_planner(policy.planner);
    world_ = std::make_unique<World>(options.seed, model, machine.options, engine, machine.workers,
                                     std::move(planner));
    world_->coordinator().post(
        engine::OpenContext{kContext, context_tokens + 1024, [](const Error&) {}});
    settle();
    world_->plant_context(kContext, context_tokens);
  }

  // Percent remaining afterwards.
  double evict_to(double remaining_percent) {
    engine::EvictRequest request;
    request.id = 1;
    request.percent = 100 - remaining_percent;
    double remaining = 100;
    request.done = [&](const Error&, const EvictReport& report) {
      remaining = report.remaining_percent;
    };
    world_->coordinator().post(std::move(request));
    settle();
    return remaining;
  }

  engine::GenerateResult ask() {
    engine::GenerateRequest request;
    request.id = 2;
    request.context = kContext;
    request.tokens.assign(options_.prompt_tokens, 0);
    request.source = std::make_shared<FirstToken>();
    request.accepted = world_->dispatcher().now();
    engine::GenerateResult answer;
    request.done = [&](engine::GenerateResult result) { answer = std::move(result); };
    world_->coordinator().post(std::move(request));
    settle();
    return answer;
  }

 private:
  void settle() { static_cast<void>(world_->dispatcher().run_until_quiet(kEventsMax)); }

  const TtftOptions& options_;
  std::unique_ptr<World> world_;
};

TtftRow run_row(const MachineModel& machine, const actors::ModelDescription& model,
                const TtftOptions& options, std::uint32_t context, double remaining,
                const std::string& name) {
  Experiment experiment(machine, model, options, context, *policy_of(name));
  TtftRow row;
  row.context_tokens = context;
  row.asked_percent = remaining;
  row.policy = name;
  row.remaining_percent = experiment.evict_to(remaining);
  row.reachable = row.remaining_percent < remaining + 3;  // the paper's margin
  const engine::GenerateResult result = experiment.ask();
  const RestoreReport& restore = result.answer.restore;
  row.ttft_ms = result.answer.ttft_ms;
  row.allocate_ms = restore.allocate_ms;
  row.read_ms = restore.read_ms;
  row.decode_ms = restore.decode_ms;
  row.wait_ms = restore.wait_ms;
  row.compute_ms = result.answer.prefill_ms - restore.wait_ms;
  row.bytes_read = restore.bytes_read;
  row.bytes_decoded = restore.bytes_decoded;
  return row;
}

}  // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names{
      "mzcache",     "partial-offload", "no-overlap",  "allocation-reload", "reload-prefill",
      "forward-out", "random-out",      "memory-only", "storage-only"};
  return names;
}

Result<std::vector<TtftRow>> simulate_ttft(const MachineModel& machine,
                                           const actors::ModelDescription& model,
                                           const TtftOptions& options) {
  const std::vector<std::string>& policies =
      options.policies.empty() ? policy_names() : options.policies;
  for (const std::string& name : policies) {
    if (policy_of(name)) continue;
    std::string known;
    for (const std::string& policy : policy_names()) {
      known += known.empty() ? "" : ", ";
      known += policy;
    }
    std::string detail = "policy '";
    detail.append(name).append("' (there are: ").append(known).append(")");
    return Error{ErrorCode::kBadArgument, 0, "simulate", std::move(detail)};
  }
  std::vector<TtftRow> rows;
  for (const std::uint32_t context : options.contexts) {
    const double in_memory = run_row(machine, model, options, context, 100, "mzcache").ttft_ms;
    for (const double remaining : options.remaining) {
      const double baseline =
          run_row(machine, model, options, context, remaining, "partial-offload").ttft_ms;
      for (const std::string& name : policies) {
        rows.push_back(run_row(machine, model, options, context, remaining, name));
        rows.back().in_memory_ms = in_memory;
        rows.back().partial_offload_ms = baseline;
      }
    }
  }
  return rows;
}

}  // namespace mzcache::sim
