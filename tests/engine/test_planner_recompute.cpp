// The third way back: whole columns of positions, the last first, and only where computing is
// quicker.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "engine/planner.h"
#include "planner_instances.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::engine;
using namespace mzcache::engine::test;
using actors::UnitKind;

namespace {

constexpr std::uint32_t kChunkTokens = 256;

// Contexts as the units say.
void add_contexts(PlannerInput& input, std::mt19937_64& random, bool may_be_whole) {
  std::map<std::uint32_t, std::uint32_t> chunks;
  for (const PlannedUnit& unit : input.units) {
    if (unit.unit.kind != UnitKind::kKv) continue;
    std::uint32_t& most = chunks[unit.unit.context];
    most = std::max(most, unit.unit.chunk + 1);
  }
  for (const auto& [id, count] : chunks) {
    const auto tokens = static_cast<std::uint32_t>(count * kChunkTokens - random() % kChunkTokens);
    input.contexts.push_back({id, tokens, kChunkTokens, may_be_whole && random() % 4 == 0});
  }
}

Instance recomputing_instance(std::mt19937_64& random) {
  Instance instance = make_instance({}, random);
  add_contexts(instance.input, random, true);
  instance.options.recompute = true;
  constexpr double kRates[] = {1, 1e3, 1e5, 1e12};
  instance.input.profile.prefill_tokens_per_s = kRates[random() % std::size(kRates)];
  return instance;
}

}  // namespace

TEST_CASE("an example: one column, two columns, then the stages") {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  PlannerInput input;
  input.layers = 2;
  for (std::uint32_t layer = 0; layer < 2; ++layer) {
    input.units.push_back({actors::weights_unit(layer), UnitPlace::kResident, kMiB, 0});
    for (std::uint32_t chunk = 0; chunk < 2; ++chunk) {
      input.units.push_back(
          {actors::kv_unit(1, layer, chunk), UnitPlace::kResident, kMiB, kMiB / 2});
    }
  }
  input.units.push_back({actors::head_unit(2), UnitPlace::kResident, kMiB, 0});
  input.profile.model_read_bytes_per_s = input.profile.swap_read_bytes_per_s = kMiB;
  input.profile.decode_bytes_per_s = kMiB;
  input.contexts.push_back({1, 400, kChunkTokens, false});
  PlannerOptions options;
  options.recompute = true;
  const auto planner = make_planner(options);
  // Both paths together: four chunks in two seconds. 400 tokens in less than that?
  input.profile.prefill_tokens_per_s = 199;
  CHECK(planner->plan(input, kMiB).steps.front().stage == EvictionStage::kKvOnly);
  input.profile.prefill_tokens_per_s = 201;
  const EvictionPlan one = planner->plan(input, kMiB);
  REQUIRE(one.steps.size() == 2);
  CHECK(one.steps[0].unit == actors::kv_unit(1, 1, 1));
  CHECK(one.steps[1].unit == actors::kv_unit(1, 0, 1));
  CHECK(one.freed_bytes == 2 * kMiB);
  CHECK(one.recompute_s == Approx((400 - 256) / 201.0));
  CHECK(one.restore_memory_s + one.restore_storage_s == 0);
  CHECK(planner->plan(input, 3 * kMiB).steps.size() == 4);
  CHECK(planner->plan(input, 5 * kMiB).steps.back().unit.kind == UnitKind::kHead);
  CHECK(planner->plan(input, 5 * kMiB).recompute_s == Approx(400 / 201.0));
  // Not asked for, or nothing known: as if there were no such thing.
  input.profile.prefill_tokens_per_s = 0;
  CHECK(planner->plan(input, kMiB).steps.front().stage == EvictionStage::kKvOnly);
  input.profile.prefill_tokens_per_s = 1e9;
  CHECK(make_planner({})->plan(input, kMiB).steps.front().stage == EvictionStage::kKvOnly);
  // All of it, where what came before is gone.
  input.contexts.front().whole = true;
  CHECK(planner->plan(input, 1).steps.size() == 4);
}

TEST_CASE("columns leave whole, from the end, and no unit twice") {
  std::uint64_t dropped = 0;
  std::uint64_t untouched = 0;
  for (std::uint64_t seed = 1; seed <= 100'000; ++seed) {
    std::mt19937_64 random(seed);
    const Instance instance = recomputing_instance(random);
    const std::uint64_t asked = random() % (instance.held_bytes + 1);
    const EvictionPlan plan = make_planner(instance.options)->plan(instance.input, asked);
    std::set<actors::UnitId> named;
    std::map<std::uint32_t, std::uint32_t> end;  // context → first chunk that is dropped
    std::uint64_t freed = 0;
    bool stages = false;
    bool once = true;
    bool first = true;
    for (const EvictionStep& step : plan.steps) {
      once &= named.insert(step.unit).second;
      freed += step.bytes;
      stages |= step.stage != EvictionStage::kRecompute;
      if (step.stage != EvictionStage::kRecompute) continue;
      first &= !stages;
      ++dropped;
      const auto [at, added] = end.emplace(step.unit.context, step.unit.chunk);
      if (!added) at->second = std::min(at->second, step.unit.chunk);
    }
    bool whole = true;
    bool later = true;
    for (const PlannedUnit& unit : instance.input.units) {
      if (unit.unit.kind != UnitKind::kKv || !end.contains(unit.unit.context)) continue;
      if (unit.unit.chunk >= end[unit.unit.context]) whole &= named.contains(unit.unit);
    }
    for (const EvictionStep& step : plan.steps) {
      if (step.stage == EvictionStage::kRecompute || !end.contains(step.unit.context)) continue;
      if (step.unit.kind == UnitKind::kKv) later &= step.unit.chunk < end[step.unit.context];
    }
    untouched += end.empty() ? 1 : 0;
    CAPTURE(seed);
    if (!(once && first && whole && later && freed == plan.freed_bytes)) {
      REQUIRE(once);
      REQUIRE(first);
      REQUIRE(whole);
      REQUIRE(later);
      REQUIRE(freed == plan.freed_bytes);
    }
  }
  CHECK(dropped > 100'000);
  CHECK(untouched > 10'000);
}
