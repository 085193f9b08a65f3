// Models of any shape, and budgets that are spent: what a plan does where the ordinary course ends.
#include <algorithm>
#include <map>
#include <utility>

#include "engine/planner.h"
#include "planner_instances.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::engine;
using namespace mzcache::engine::test;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Sizes {
  std::uint32_t layers = 4;
  std::uint32_t chunks = 8;  // per layer
  std::uint64_t weights = 4 * kMiB;
  std::uint64_t head = 8 * kMiB;
  std::uint64_t chunk = kMiB;
  std::uint64_t compressed = kMiB / 2;
};

PlannerInput model(const Sizes& sizes) {
  PlannerInput input;
  input.layers = sizes.layers;
  for (std::uint32_t layer = 0; layer < sizes.layers; ++layer) {
    input.units.push_back({actors::weights_unit(layer), UnitPlace::kResident, sizes.weights, 0});
    for (std::uint32_t chunk = 0; chunk < sizes.chunks; ++chunk) {
      input.units.push_back(
          {actors::kv_unit(0, layer, chunk), UnitPlace::kResident, sizes.chunk, sizes.compressed});
    }
  }
  input.units.push_back({actors::head_unit(sizes.layers), UnitPlace::kResident, sizes.head, 0});
  return input;
}

std::map<UnitPlace, int> counts(const PlannerInput& input) {
  std::map<UnitPlace, int> result;
  for (const PlannedUnit& unit : input.units) ++result[unit.place];
  return result;
}

// Both rules that leave backward.
template <typename Test>
void with_both_rules(const Test& test) {
  for (const EvictionOrder order : {EvictionOrder::kBackwardOut, EvictionOrder::kOptimal}) {
    PlannerOptions options;
    options.order = order;
    INFO("order " << static_cast<int>(order));
    test(*make_planner(options));
  }
}

PlannerInput after_all(const EvictionPlanner& planner, const PlannerInput& input) {
  return apply(input, planner.plan(input, held_bytes(input)));
}

}  // namespace

TEST_CASE("a full in-memory swap sends the rest to the swap file") {
  with_both_rules([](const EvictionPlanner& planner) {
    PlannerInput input = model({});
    input.memory_swap_free = 5 * kMiB / 2;  // five encoded chunks
    const PlannerInput after = after_all(planner, input);
    // CompKV empties it again, so it never holds more than five, and everything leaves.
    CHECK(counts(after) ==
          std::map<UnitPlace, int>{{UnitPlace::kStored, 32}, {UnitPlace::kDropped, 5}});
    CHECK(after.memory_swap_free == 5 * kMiB / 2);

    input.storage_free = 0;
    const PlannerInput closed = after_all(planner, input);
    CHECK(counts(closed) == std::map<UnitPlace, int>{{UnitPlace::kResident, 27},
                                                     {UnitPlace::kCompressed, 5},
                                                     {UnitPlace::kDropped, 5}});
    CHECK(closed.memory_swap_free == 0);
  });
}

TEST_CASE("a full swap file leaves the memory path and the weights") {
  with_both_rules([](const EvictionPlanner& planner) {
    PlannerInput input = model({});
    input.storage_free = 0;
    CHECK(counts(after_all(planner, input)) ==
          std::map<UnitPlace, int>{{UnitPlace::kCompressed, 32}, {UnitPlace::kDropped, 5}});
    input.storage_free = 3 * kMiB / 2;  // three encoded chunks of 32
    const PlannerInput after = after_all(planner, input);
    CHECK(counts(after)[UnitPlace::kStored] >= 1);
    CHECK(counts(after)[UnitPlace::kStored] <= 3);
    CHECK(counts(after)[UnitPlace::kResident] == 0);
    CHECK(after.storage_free < kMiB / 2);
  });
}

TEST_CASE("a codec for storage alone: all chunks go to the file encoded, and owe both") {
  PlannerInput input = model({});
  for (PlannedUnit& unit : input.units) {
    if (unit.unit.kind == actors::UnitKind::kKv) unit.stored_bytes = kMiB / 4;
  }
  input.storage_free = 5 * kMiB;  // twenty of 32 chunks, as they are in the file
  input.profile.storage_decode_bytes_per_s = 1e9;
  for (const EvictionOrder order : {EvictionOrder::kBackwardOut, EvictionOrder::kOptimal}) {
    PlannerOptions options;
    options.order = order;
    options.memory_closed = true;
    const EvictionPlan plan = make_planner(options)->plan(input, held_bytes(input));
    const PlannerInput after = apply(input, plan);
    CHECK(counts(after) == std::map<UnitPlace, int>{{UnitPlace::kResident, 12},
                                                    {UnitPlace::kStored, 20},
                                                    {UnitPlace::kDropped, 5}});
    CHECK(after.storage_free == 0);
    for (const EvictionStep& step : plan.steps) {
      CHECK(step.encoded == (step.to == UnitPlace::kStored));
    }
    CHECK(plan.restore_memory_s == Approx(20.0 * kMiB / 1e9));
    const double read = 5.0 * kMiB / input.profile.swap_read_bytes_per_s +
                        24.0 * kMiB / input.profile.model_read_bytes_per_s;
    CHECK(plan.restore_storage_s == Approx(read));
    // What is there already is not written again.
    PlannerInput again = after;
    for (PlannedUnit& unit : again.units) {
      unit.stored_clean = unit.place == UnitPlace::kStored;
      unit.place = UnitPlace::kResident;
    }
    for (const EvictionStep& step : make_planner(options)->plan(again, held_bytes(again)).steps) {
      CHECK_FALSE(step.encoded);
    }
  }
}

TEST_CASE("at the end resident chunks go to the file in the form that comes back sooner") {
  with_both_rules([](const EvictionPlanner& planner) {
    PlannerInput input = model({});
    for (PlannedUnit& unit : input.units) {
      if (unit.unit.kind == actors::UnitKind::kKv) unit.stored_bytes = kMiB / 8;
    }
    const auto encoded_by_storage = [&] {
      std::pair<int, int> counted{0, 0};  // of those that go to the file
      for (const EvictionStep& step : planner.plan(input, held_bytes(input)).steps) {
        if (step.to != UnitPlace::kStored) continue;
        (step.encoded ? counted.first : counted.second) += 1;
      }
      return counted;
    };
    input.profile.storage_decode_bytes_per_s = 1e10;
    CHECK(encoded_by_storage() == std::pair(32, 0));
    input.profile.storage_decode_bytes_per_s = 1e7;  // longer than all that is read
    CHECK(encoded_by_storage() == std::pair(0, 32));
    input.storage_free = 4 * kMiB;  // 32 of the small ones, 8 of the others
    CHECK(encoded_by_storage().first > 0);
    CHECK(counts(after_all(planner, input))[UnitPlace::kStored] > 8);

    // What is in memory already stays as it is.
    input.storage_free = ~0ULL;
    input.profile.storage_decode_bytes_per_s = 1e10;
    for (PlannedUnit& unit : input.units) {
      if (unit.unit.kind == actors::UnitKind::kKv) unit.place = UnitPlace::kCompressed;
    }
    CHECK(encoded_by_storage() == std::pair(0, 32));
  });
}

TEST_CASE("a codec that saves nothing is not used") {
  with_both_rules([](const EvictionPlanner& planner) {
    Sizes sizes;
    sizes.compressed = sizes.chunk;
    for (const std::uint64_t more : {std::uint64_t{0}, std::uint64_t{64}}) {
      sizes.compressed = sizes.chunk + more;
      PlannerInput input = model(sizes);
      CHECK(counts(after_all(planner, input)) ==
            std::map<UnitPlace, int>{{UnitPlace::kStored, 32}, {UnitPlace::kDropped, 5}});
      for (const EvictionStep& step : planner.plan(input, held_bytes(input)).steps) {
        CHECK(step.stage != EvictionStage::kCompKv);
      }
      input.storage_free = 0;
      CHECK(counts(after_all(planner, input)) ==
            std::map<UnitPlace, int>{{UnitPlace::kResident, 32}, {UnitPlace::kDropped, 5}});
    }
  });
}

TEST_CASE("one layer, with and without chunks") {
  with_both_rules([](const EvictionPlanner& planner) {
    for (const std::uint32_t chunks : {0U, 1U, 5U}) {
      Sizes sizes;
      sizes.layers = 1;
      sizes.chunks = chunks;
      const PlannerInput input = model(sizes);
      for (std::uint64_t asked = 0; asked <= held_bytes(input); asked += kMiB / 4) {
        CHECK(planner.plan(input, asked).freed_bytes >= asked);
      }
      CHECK(planner.plan(input, 100 * kMiB).freed_bytes == held_bytes(input));
    }
  });
}

TEST_CASE("thousands of chunks: a long context leaves whole and in parts") {
  with_both_rules([](const EvictionPlanner& planner) {
    Sizes sizes;
    sizes.layers = 28;
    sizes.chunks = 128;
    sizes.weights = 30 * kMiB;
    sizes.head = 297 * kMiB;
    const PlannerInput input = model(sizes);
    const std::uint64_t held = held_bytes(input);
    for (std::uint64_t tenth = 1; tenth <= 10; ++tenth) {
      const std::uint64_t asked = held / 10 * tenth;
      const EvictionPlan plan = planner.plan(input, asked);
      CHECK(plan.freed_bytes >= asked);
      CHECK(plan.freed_bytes < asked + sizes.head);
    }
    CHECK(planner.plan(input, held).freed_bytes == held);
  });
}

TEST_CASE("weights tiny against KV: both paths share the chunks") {
  with_both_rules([](const EvictionPlanner& planner) {
    Sizes sizes;
    sizes.weights = 4096;
    sizes.head = 8192;
    sizes.chunks = 64;
    const PlannerInput input = model(sizes);
    const EvictionPlan plan = planner.plan(input, held_bytes(input) / 2);
    CHECK(plan.restore_memory_s == Approx(plan.restore_storage_s).margin(2 * kMiB / 2.5e9));
    CHECK(counts(apply(input, plan))[UnitPlace::kStored] > 32);
  });
}

TEST_CASE("KV tiny against weights: the chunks are compressed, never stored before the weights") {
  with_both_rules([](const EvictionPlanner& planner) {
    Sizes sizes;
    sizes.weights = 512 * kMiB;
    sizes.head = 256 * kMiB;
    sizes.chunk = 8192;
    sizes.compressed = 4096;
    const PlannerInput input = model(sizes);
    const std::uint64_t kv = 32 * sizes.chunk;
    const PlannerInput after = apply(input, planner.plan(input, held_bytes(input) - kv));
    CHECK(counts(after)[UnitPlace::kStored] == 0);
    CHECK(counts(after)[UnitPlace::kDropped] == 5);
  });
}

TEST_CASE("a small request does not drop a large head where chunks are quicker") {
  Sizes sizes;
  sizes.head = 256 * kMiB;
  const PlannerInput input = model(sizes);
  PlannerOptions options;
  options.order = EvictionOrder::kOptimal;
  const EvictionPlan plan = make_planner(options)->plan(input, 8 * kMiB);
  for (const EvictionStep& step : plan.steps) CHECK(step.unit.kind != actors::UnitKind::kHead);
  const EvictionPlan paper = make_planner({})->plan(input, 8 * kMiB);
  CHECK(plan.restore_storage_s < paper.restore_storage_s / 10);
  CHECK(plan.restore_memory_s < paper.restore_storage_s / 10);
}
