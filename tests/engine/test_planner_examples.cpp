// The stages by example: what a reader of the paper's Algorithm 1 would expect, step by step.
#include <algorithm>
#include <string>

#include "engine/planner.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// 1 MiB/s everywhere: a unit's time is its size in MiB.
PlannerInput model(std::uint32_t layers, std::uint64_t weights, std::uint64_t head,
                   std::uint32_t chunks, double decode_mib_per_s = 1) {
  PlannerInput input;
  input.layers = layers;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    input.units.push_back({actors::weights_unit(layer), UnitPlace::kResident, weights * kMiB, 0});
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      input.units.push_back(
          {actors::kv_unit(0, layer, chunk), UnitPlace::kResident, kMiB, kMiB / 2});
    }
  }
  input.units.push_back({actors::head_unit(layers), UnitPlace::kResident, head * kMiB, 0});
  input.profile.model_read_bytes_per_s = input.profile.swap_read_bytes_per_s = kMiB;
  input.profile.decode_bytes_per_s = decode_mib_per_s * static_cast<double>(kMiB);
  return input;
}

// "H W1 c1.0": c compressed, s stored raw, x stored encoded.
std::string text(const EvictionPlan& plan) {
  std::string result;
  for (const EvictionStep& step : plan.steps) {
    if (!result.empty()) result += ' ';
    const std::string layer = std::to_string(step.unit.layer);
    if (step.unit.kind == actors::UnitKind::kHead) {
      result += 'H';
    } else if (step.unit.kind == actors::UnitKind::kWeights) {
      result += 'W' + layer;
    } else {
      const bool encoded = step.stage == EvictionStage::kCompKv;
      result += step.to == UnitPlace::kCompressed ? 'c' : (encoded ? 'x' : 's');
      result += layer + '.' + std::to_string(step.unit.chunk);
    }
  }
  return result;
}

std::string plan_of(const PlannerInput& input, std::uint64_t bytes, PlannerOptions options = {}) {
  return text(make_planner(options)->plan(input, bytes));
}

}  // namespace

TEST_CASE("KVonly splits what exceeds T, KVandW pairs the rest with the weights, CompKV ends it") {
  // T = 2 + 1 + 1 chunks; 6 chunks: the first two are split, then head, 2 chunks, W, 1, W, 1.
  const PlannerInput input = model(2, 1, 2, 3);
  CHECK(plan_of(input, kMiB / 4) == "c1.2");
  CHECK(plan_of(input, 3 * kMiB / 2) == "c1.2 s1.1");
  CHECK(plan_of(input, 7 * kMiB / 2) == "c1.2 s1.1 H");
  CHECK(plan_of(input, 15 * kMiB / 2) == "c1.2 s1.1 H c1.0 c0.2 W1 c0.1 W0 c0.0");
  CHECK(plan_of(input, 8 * kMiB) == "x1.2 s1.1 H c1.0 c0.2 W1 c0.1 W0 c0.0");
  CHECK(plan_of(input, 10 * kMiB) == "x1.2 s1.1 H x1.0 x0.2 W1 x0.1 W0 x0.0");
  const EvictionPlan plan = make_planner({})->plan(input, 15 * kMiB / 2);
  CHECK(plan.restore_memory_s == Approx(5));
  CHECK(plan.restore_storage_s == Approx(5));
}

TEST_CASE("the split is inverse to the two times") {
  // Decoding three times as fast: three chunks compressed for one stored.
  std::string steps = plan_of(model(1, 1, 1, 16, 3), 5 * kMiB);
  CHECK(std::count(steps.begin(), steps.end(), 'c') ==
        3 * std::count(steps.begin(), steps.end(), 's'));
}

TEST_CASE("no KV yet: the head first, then the layers from the rear") {
  CHECK(plan_of(model(3, 1, 1, 0), 100 * kMiB) == "H W2 W1 W0");
  PlannerOptions options;
  options.order = EvictionOrder::kForwardOut;
  CHECK(plan_of(model(3, 1, 1, 0), 100 * kMiB, options) == "W0 W1 W2 H");
}

TEST_CASE("less KV than T starts in KVandW; a fraction of r is carried") {
  // Weights of 1.5 chunks: pairs of 2, 1, 2, 1 …; the head of 6.
  const PlannerInput input = model(4, 3, 12, 3, 0.5);
  CHECK(plan_of(input, 30 * kMiB) ==
        "H c3.2 c3.1 c3.0 c2.2 c2.1 c2.0 W3 c1.2 c1.1 W2 c1.0 W1 c0.2 c0.1 W0 c0.0");
}

TEST_CASE("one path only, lossless, closed budgets") {
  const PlannerInput input = model(1, 2, 2, 6);
  PlannerOptions storage;
  storage.paths = EvictionPaths::kStorage;
  CHECK(plan_of(input, 10 * kMiB, storage) == "s0.5 s0.4 s0.3 s0.2 s0.1 s0.0 H W0");
  PlannerOptions lossless;
  lossless.memory_closed = true;
  CHECK(plan_of(input, 10 * kMiB, lossless) == "s0.5 s0.4 s0.3 s0.2 s0.1 s0.0 H W0");
  PlannerOptions memory;
  memory.paths = EvictionPaths::kMemory;
  CHECK(plan_of(input, 7 * kMiB, memory) == "c0.5 c0.4 H W0 c0.3 c0.2 c0.1 c0.0");

  PlannerInput tight = input;
  tight.storage_free = 0;
  tight.memory_swap_free = kMiB;  // two encoded chunks
  CHECK(plan_of(tight, 100 * kMiB) == "c0.5 c0.4 H W0");
  lossless.paths = EvictionPaths::kMemory;
  CHECK(plan_of(tight, 100 * kMiB, lossless) == "H W0");
  PlannerInput useless = input;
  for (PlannedUnit& unit : useless.units) unit.compressed_bytes = unit.bytes;
  CHECK(plan_of(useless, 100 * kMiB) == "s0.5 s0.4 H W0 s0.3 s0.2 s0.1 s0.0");
}

TEST_CASE("a priced decode sends more to storage") {
  PlannerInput input = model(1, 1, 1, 12);
  input.profile.decode_cpu_s_per_byte = 1.0 / kMiB;
  PlannerOptions priced;
  priced.cpu_price = 3;
  const std::string steps = plan_of(input, 5 * kMiB, priced);
  CHECK(std::count(steps.begin(), steps.end(), 's') > std::count(steps.begin(), steps.end(), 'c'));
}

TEST_CASE("chunks that are read where they lie all go before any weights") {
  PlannerInput input = model(2, 1, 2, 3);
  decode_takes_no_time(input.profile);
  CHECK(plan_of(input, 3 * kMiB / 2) == "c1.2 c1.1 c1.0");
  CHECK(plan_of(input, 11 * kMiB / 2) == "c1.2 c1.1 c1.0 c0.2 c0.1 c0.0 H W1");
  const EvictionPlan plan = make_planner({})->plan(input, 11 * kMiB / 2);
  CHECK(plan.restore_memory_s == 0);
  CHECK(plan.restore_storage_s == Approx(3));
}

TEST_CASE("several contexts leave by layer, context, chunk") {
  PlannerInput input = model(2, 9, 9, 1);
  input.units.push_back({actors::kv_unit(1, 0, 0), UnitPlace::kResident, kMiB, kMiB / 2});
  input.units.push_back({actors::kv_unit(1, 1, 0), UnitPlace::kResident, kMiB, kMiB / 2});
  const EvictionPlan plan = make_planner({})->plan(input, 11 * kMiB);
  REQUIRE(plan.steps.size() == 5);
  CHECK(plan.steps[1].unit == actors::kv_unit(1, 1, 0));
  CHECK(plan.steps[2].unit == actors::kv_unit(0, 1, 0));
  CHECK(plan.steps[3].unit == actors::kv_unit(1, 0, 0));
  CHECK(plan.steps[4].unit == actors::kv_unit(0, 0, 0));
}
