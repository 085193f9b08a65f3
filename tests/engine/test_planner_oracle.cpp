// The policy against the best of all placements. The figures committed here may improve, not get
// worse; what they say is in docs/decisions.md.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "planner_oracle.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::engine;
using namespace mzcache::engine::test;

namespace {

constexpr std::uint64_t kInstances = 1'000;
constexpr std::uint64_t kRealInstances = 200;
constexpr double kTolerance = 0.002;  // libm's last digits decide a tie differently

struct Measured {
  std::uint64_t seed = 0;
  double ratio = 0;
};

struct Figures {
  double median = 0;
  double p90 = 0;
  double worst_ten = 0;  // mean of the ten worst
};

// Ratios over seeds 1…count, ascending.
template <typename Ratio>
std::vector<Measured> measure(std::uint64_t count, const Ratio& ratio) {
  std::vector<Measured> all;
  for (std::uint64_t seed = 1; seed <= count; ++seed) all.push_back({seed, ratio(seed)});
  std::sort(all.begin(), all.end(),
            [](const Measured& a, const Measured& b) { return a.ratio < b.ratio; });
  return all;
}

Figures figures_of(const std::vector<Measured>& all) {
  const double worst = std::accumulate(all.end() - 10, all.end(), 0.0,
                                       [](double sum, const Measured& m) { return sum + m.ratio; });
  return {all[all.size() / 2].ratio, all[all.size() * 9 / 10].ratio, worst / 10};
}

OracleInstance instance_of(std::uint64_t seed, bool shared, OracleScale scale) {
  std::mt19937_64 random(seed);
  return make_oracle_instance(random, shared, scale);
}

PlannerOptions options_for(const OracleInstance& instance, PlannerOptions options) {
  options.cores = std::max(1U, instance.shared_cores);
  return options;
}

EvictionPlan plan_for(const OracleInstance& instance, const PlannerOptions& options) {
  return make_planner(options_for(instance, options))->plan(instance.input, instance.asked_bytes);
}

void print_worst(const std::vector<Measured>& all, bool shared, const PlannerOptions& options) {
  for (auto worst = all.rbegin(); worst != all.rbegin() + 10; ++worst) {
    const OracleInstance i = instance_of(worst->seed, shared, OracleScale::kTenUnits);
    const Placement placement = placement_of(i, plan_for(i, options));
    const std::uint64_t freed = freed_bytes(i, placement);
    const auto percent = [&](std::uint64_t bytes) { return bytes * 100 / i.footprint(); };
    // The second ratio: to the best that frees as much as the policy did (its last unit included).
    std::printf("  %.3f (%.3f) seed %llu %s asked %llu %% freed %llu %%:%s; best:%s\n",
                worst->ratio, time_to_first_token(i, placement) / best_placement(i, freed).seconds,
                static_cast<unsigned long long>(worst->seed), i.name.c_str(),
                static_cast<unsigned long long>(percent(i.asked_bytes)),
                static_cast<unsigned long long>(percent(freed)), to_text(placement).c_str(),
                to_text(best_placement(i, i.asked_bytes).placement).c_str());
  }
}

void check(const char* name, const Figures& now, const Figures& committed) {
  std::printf("%s: median %.3f, 90th percentile %.3f, mean of the ten worst %.3f\n", name,
              now.median, now.p90, now.worst_ten);
  INFO(name);
  CHECK(now.median <= committed.median + kTolerance);
  CHECK(now.p90 <= committed.p90 + kTolerance);
  CHECK(now.worst_ten <= committed.worst_ten + kTolerance * 10);
}

// Policy ÷ best at ten units.
void against_best(const char* name, bool shared, const PlannerOptions& options,
                  const Figures& committed) {
  const auto all = measure(kInstances, [&](std::uint64_t seed) {
    const OracleInstance i = instance_of(seed, shared, OracleScale::kTenUnits);
    const EvictionPlan plan = plan_for(i, options);
    const Placement placement = placement_of(i, plan);
    REQUIRE(freed_bytes(i, placement) == plan.freed_bytes);
    REQUIRE(plan.freed_bytes >= i.asked_bytes);
    return time_to_first_token(i, placement) / best_placement(i, i.asked_bytes).seconds;
  });
  CHECK(all.front().ratio >= 1 - 1e-9);
  CHECK(figures_of(all).median <= 1.05);
  check(name, figures_of(all), committed);
  print_worst(all, shared, options);
}

// Policy ÷ the bound that no placement beats, with as many units as the real models have.
void against_bound(const char* name, bool shared, const PlannerOptions& options,
                   const Figures& committed) {
  const auto all = measure(kRealInstances, [&](std::uint64_t seed) {
    const OracleInstance i = instance_of(seed, shared, OracleScale::kReal);
    const EvictionPlan plan = plan_for(i, options);
    return time_to_first_token(i, placement_of(i, plan)) / time_bound(i, i.asked_bytes);
  });
  CHECK(all.front().ratio >= 1 - 1e-9);
  check(name, figures_of(all), committed);
}

PlannerOptions with(EvictionOrder order, double cpu_price) {
  PlannerOptions options;
  options.order = order;
  options.cpu_price = cpu_price;
  return options;
}

}  // namespace

TEST_CASE("the paper's order is near the best of all placements") {
  const EvictionOrder order = EvictionOrder::kBackwardOut;
  against_best("own device", false, with(order, 0), {1.000, 1.350, 3.934});
  against_best("shared cores, unpriced", true, with(order, 0), {1.001, 1.063, 1.840});
  against_best("shared cores, priced", true, with(order, 1), {1.001, 1.063, 1.840});
}

TEST_CASE("the optimal order is nearer") {
  const EvictionOrder order = EvictionOrder::kOptimal;
  against_best("optimal, own device", false, with(order, 0), {1.000, 1.103, 1.574});
  against_best("optimal, shared cores, unpriced", true, with(order, 0), {1.001, 1.037, 1.209});
  against_best("optimal, shared cores, priced", true, with(order, 1), {1.001, 1.037, 1.202});
}

TEST_CASE("with as many units as real models have, both orders are near the bound") {
  const EvictionOrder paper = EvictionOrder::kBackwardOut;
  const EvictionOrder optimal = EvictionOrder::kOptimal;
  against_bound("real units, own device", false, with(paper, 0), {1.015, 1.101, 2.900});
  against_bound("real units, shared cores, unpriced", true, with(paper, 0), {1.005, 1.055, 1.125});
  against_bound("real units, shared cores, priced", true, with(paper, 1), {1.005, 1.054, 1.116});
  against_bound("real units, optimal, own device", false, with(optimal, 0), {1.007, 1.046, 1.276});
  against_bound("real units, optimal, shared cores, priced", true, with(optimal, 1),
                {1.006, 1.044, 1.114});
}

// The search's own twin: every placement, without cutting branches.
TEST_CASE("the oracle misses no placement") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const OracleInstance i = instance_of(seed, seed % 2 == 0, OracleScale::kTenUnits);
    if (i.layers * i.chunks > 3) continue;
    CAPTURE(seed);
    const std::uint64_t units = i.layers * (i.chunks + 1) + 1;
    double best = INFINITY;
    for (std::uint64_t code = 0; code < std::uint64_t{1} << (2 * units); ++code) {
      Placement placement(i.layers + 1);
      std::uint64_t rest = code;
      bool valid = true;
      for (std::uint32_t layer = 0; layer <= i.layers; ++layer, rest >>= 2) {
        valid &= (rest & 3) < 2;
        placement[layer].weights_dropped = (rest & 1) != 0;
      }
      if (!valid) continue;
      for (std::uint32_t chunk = 0; chunk < i.layers * i.chunks; ++chunk, rest >>= 2) {
        LayerPlacement& layer = placement[chunk % i.layers];
        if ((rest & 3) == 1) ++layer.compressed;
        if ((rest & 3) == 2) ++layer.stored;
        if ((rest & 3) == 3) ++layer.stored_encoded;
      }
      if (freed_bytes(i, placement) < i.asked_bytes) continue;
      best = std::min(best, time_to_first_token(i, placement));
    }
    CHECK(best_placement(i, i.asked_bytes).seconds == Approx(best));
  }
}
