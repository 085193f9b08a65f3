// The eviction policy's properties, each over 100,000 seeded instances.
#include <algorithm>
#include <cmath>
#include <set>

#include "engine/planner.h"
#include "planner_instances.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::engine;
using namespace mzcache::engine::test;
using actors::UnitKind;

namespace {

constexpr int kInstances = 100'000;

#define REQUIRE_SEED(condition) \
  do {                          \
    if (!(condition)) {         \
      CAPTURE(seed);            \
      REQUIRE(condition);       \
    }                           \
  } while (false)

const PlannedUnit& unit_of(const PlannerInput& input, const actors::UnitId& id) {
  return *std::find_if(input.units.begin(), input.units.end(),
                       [&](const PlannedUnit& unit) { return unit.unit == id; });
}

bool is_kv(const actors::UnitId& unit) { return unit.kind == UnitKind::kKv; }
double read_rate(const PlannerInput& input, const actors::UnitId& unit) {
  return is_kv(unit) ? input.profile.swap_read_bytes_per_s : input.profile.model_read_bytes_per_s;
}

// The resident chunk that leaves next, by its own rule; nullptr where none is resident.
const PlannedUnit* next_chunk(const PlannerInput& input, const PlannerOptions& options) {
  const PlannedUnit* next = nullptr;
  for (const PlannedUnit& unit : input.units) {
    if (!is_kv(unit.unit) || unit.place != UnitPlace::kResident) continue;
    if (next == nullptr || leaves_before(options, unit.unit, next->unit)) next = &unit;
  }
  return next;
}

// True where no move is left that order and budgets allow.
bool exhausted(const PlannerInput& input, const PlannerOptions& options) {
  for (const PlannedUnit& unit : input.units) {
    if (!is_kv(unit.unit) && unit.place == UnitPlace::kResident) return false;
    if (unit.place == UnitPlace::kCompressed &&
        (unit.stored_clean || unit.compressed_bytes <= input.storage_free)) {
      return false;
    }
  }
  const PlannedUnit* chunk = next_chunk(input, options);
  if (chunk == nullptr) return true;
  const bool storage = chunk->stored_clean || chunk->bytes_when_stored() <= input.storage_free;
  const bool memory =
      !options.memory_closed &&
      (chunk->compressed_clean || (chunk->compressed_bytes < chunk->bytes &&
                                   chunk->compressed_bytes <= input.memory_swap_free));
  return !storage && !memory;
}

// What a chunk owes, either way, by its own arithmetic.
struct Owed {
  double memory = 0;
  double storage = 0;
  [[nodiscard]] double longer() const { return std::max(memory, storage); }
};
Owed owed_by(const PlannerInput& input, const PlannerOptions& options, const PlannedUnit& chunk,
             UnitPlace place) {
  const RestoreProfile& profile = input.profile;
  const auto bytes = static_cast<double>(chunk.bytes);
  const auto decode = [&](double bytes_per_s, double cpu_s_per_byte) {
    return bytes * (1 / bytes_per_s + options.cpu_price * cpu_s_per_byte / options.cores);
  };
  const double usual = decode(profile.decode_bytes_per_s, profile.decode_cpu_s_per_byte);
  if (place == UnitPlace::kCompressed) return {usual, 0};
  const double read =
      static_cast<double>(chunk.bytes_when_stored()) / profile.swap_read_bytes_per_s;
  if (chunk.stored_bytes == 0) return {0, read};
  if (profile.storage_decode_bytes_per_s == 0) return {usual, read};
  return {decode(profile.storage_decode_bytes_per_s, profile.storage_decode_cpu_s_per_byte), read};
}

// "optimal" may take the head before or after the layers.
bool any_turn(const PlannerOptions& options, const actors::UnitId& unit) {
  return options.order == EvictionOrder::kOptimal && unit.kind == UnitKind::kHead;
}

// Each unit once, from where it is, and no unit before one of its kind that leaves earlier.
bool steps_in_order(const Instance& instance, const EvictionPlan& plan) {
  std::set<actors::UnitId> named;
  const actors::UnitId* last[2] = {};  // resident KV, weights
  for (const EvictionStep& step : plan.steps) {
    if (!named.insert(step.unit).second) return false;
    if (unit_of(instance.input, step.unit).place != step.from || step.from == step.to) return false;
    if (is_kv(step.unit) == (step.to == UnitPlace::kDropped)) return false;
    if (step.from != UnitPlace::kResident) continue;
    const actors::UnitId*& previous = last[is_kv(step.unit) ? 0 : 1];
    if (any_turn(instance.options, step.unit)) continue;
    if (previous != nullptr && !leaves_before(instance.options, *previous, step.unit)) return false;
    previous = &step.unit;
  }
  // What stayed leaves later than what left.
  for (const PlannedUnit& unit : instance.input.units) {
    if (unit.place != UnitPlace::kResident || named.count(unit.unit) != 0) continue;
    if (any_turn(instance.options, unit.unit)) continue;
    const actors::UnitId* previous = last[is_kv(unit.unit) ? 0 : 1];
    if (previous != nullptr && leaves_before(instance.options, unit.unit, *previous)) return false;
  }
  return true;
}

// What is held after a plan: a kept compressed form stays unless the chunk left through CompKV.
std::uint64_t held_after(const Instance& instance, const EvictionPlan& plan) {
  std::uint64_t held = instance.held_bytes;
  for (const EvictionStep& step : plan.steps) {
    const PlannedUnit& unit = unit_of(instance.input, step.unit);
    const std::uint64_t kept =
        unit.place == UnitPlace::kCompressed || unit.compressed_clean ? unit.compressed_bytes : 0;
    if (step.from == UnitPlace::kResident) held -= unit.bytes;
    if (step.to == UnitPlace::kCompressed) held += unit.compressed_bytes - kept;
    if (step.stage == EvictionStage::kCompKv) held -= kept;
  }
  return held;
}

// What the last move freed. A chunk that this plan compressed and then stored was last to move if
// any was, with its encoded bytes.
std::uint64_t last_move_bytes(const Instance& instance, const EvictionPlan& plan) {
  std::uint64_t last = plan.steps.empty() ? 0 : plan.steps.back().bytes;
  for (const EvictionStep& step : plan.steps) {
    if (step.stage == EvictionStage::kCompKv && step.from == UnitPlace::kResident) {
      last = std::max(last, unit_of(instance.input, step.unit).compressed_bytes);
    }
  }
  return last;
}

bool budgets_kept(const PlannerInput& before, const PlannerInput& after) {  // no wrap below zero
  const bool memory = before.memory_swap_free == ~0ULL || after.memory_swap_free < (1ULL << 62);
  const bool storage = before.storage_free == ~0ULL || after.storage_free < (1ULL << 62);
  return memory && storage;
}

}  // namespace

TEST_CASE("a plan frees what was asked, in order, once, and within the budgets") {
  int fell_short = 0;
  for (std::uint64_t seed = 1; seed <= kInstances; ++seed) {
    std::mt19937_64 random(seed);
    Instance instance = make_instance({}, random);
    if (seed % 4 == 0) instance.options.order = EvictionOrder::kOptimal;
    const std::uint64_t asked = random() % (instance.held_bytes + instance.held_bytes / 8 + 1);
    const EvictionPlan plan = make_planner(instance.options)->plan(instance.input, asked);
    const PlannerInput after = apply(instance.input, plan);
    REQUIRE_SEED(steps_in_order(instance, plan));
    REQUIRE_SEED(budgets_kept(instance.input, after));
    REQUIRE_SEED(instance.held_bytes - held_after(instance, plan) == plan.freed_bytes);
    std::uint64_t sum = 0;
    for (const EvictionStep& step : plan.steps) sum += step.bytes;
    REQUIRE_SEED(sum == plan.freed_bytes);
    if (plan.freed_bytes < asked) {
      REQUIRE_SEED(exhausted(after, instance.options));
      fell_short += instance.options.order == EvictionOrder::kRandomOut;
    } else if (asked > 0) {
      REQUIRE_SEED(plan.freed_bytes - asked < last_move_bytes(instance, plan));
    } else {
      REQUIRE_SEED(plan.steps.empty());
    }
  }
  CHECK(fell_short > 1'000);
}

TEST_CASE("both paths owe the same at every step of KVonly and KVandW") {
  int pairs = 0;
  int splits = 0;
  for (std::uint64_t seed = 1; seed <= kInstances; ++seed) {
    std::mt19937_64 random(seed);
    const Instance instance = make_instance({true, false, false, false}, random);
    const PlannerInput& input = instance.input;
    const std::uint64_t asked = random() % (instance.held_bytes + 1);
    const EvictionPlan plan = make_planner(instance.options)->plan(input, asked);
    const double price =
        instance.options.cpu_price * input.profile.decode_cpu_s_per_byte / instance.options.cores;
    double difference = 0;  // storage − memory
    double carried = 0;     // what KVonly left over on the memory path
    double dropped_last = -1;
    double longest_chunk = 0;
    for (const EvictionStep& step : plan.steps) {
      if (step.stage == EvictionStage::kCompKv || step.stage == EvictionStage::kWOnly) break;
      const auto bytes = static_cast<double>(unit_of(input, step.unit).bytes);
      const double read = bytes / read_rate(input, step.unit);
      const double decode = bytes / input.profile.decode_bytes_per_s + price * bytes;
      difference += step.to == UnitPlace::kCompressed ? -decode : read;
      if (!is_kv(step.unit)) dropped_last = read;
      const double chunk = std::max(decode, read);
      if (is_kv(step.unit) && step.stage == EvictionStage::kKvAndW) {
        longest_chunk = std::max(longest_chunk, step.to == UnitPlace::kStored ? chunk : decode);
      }
      if (step.stage == EvictionStage::kKvOnly) {
        REQUIRE_SEED(std::fabs(difference) <= chunk + 1e-9);
        REQUIRE_SEED(is_kv(step.unit));
        carried = std::max(0.0, -difference);
        ++splits;
      } else if (dropped_last >= 0) {
        // A chunk longer than the weight unit can't balance better than itself (r < 1).
        REQUIRE_SEED(std::fabs(difference) <=
                     std::max({dropped_last, longest_chunk, carried}) + 1e-9);
        pairs += is_kv(step.unit);
      }
    }
  }
  CHECK(pairs > kInstances);
  CHECK(splits > kInstances);
}

TEST_CASE("chunks that storage keeps encoded go where both paths end sooner") {
  int encoded = 0;
  int balanced = 0;
  for (std::uint64_t seed = 1; seed <= kInstances; ++seed) {
    std::mt19937_64 random(seed);
    const Instance instance = make_instance({true, false, false}, random);
    const PlannerInput& input = instance.input;
    const EvictionPlan plan =
        make_planner(instance.options)->plan(input, random() % (instance.held_bytes + 1));
    Owed owed;
    for (const EvictionStep& step : plan.steps) {
      if (step.stage != EvictionStage::kKvOnly) break;
      const PlannedUnit& chunk = unit_of(input, step.unit);
      const Owed memory = owed_by(input, instance.options, chunk, UnitPlace::kCompressed);
      const Owed storage = owed_by(input, instance.options, chunk, UnitPlace::kStored);
      const Owed to_memory{owed.memory + memory.memory, owed.storage};
      const Owed to_storage{owed.memory + storage.memory, owed.storage + storage.storage};
      const bool stored = step.to == UnitPlace::kStored;
      const Owed& other = stored ? to_memory : to_storage;
      owed = stored ? to_storage : to_memory;
      REQUIRE_SEED(owed.longer() <= other.longer() + 1e-9);
      REQUIRE_SEED(step.encoded == (stored && chunk.stored_bytes > 0));
      encoded += step.encoded ? 1 : 0;
      // Where a stored chunk keeps the decoders less busy than a compressed one, and less busy than
      // the disk: both paths owe the same, to within a chunk.
      if (storage.memory < memory.memory && storage.memory < storage.storage) {
        REQUIRE_SEED(std::fabs(owed.storage - owed.memory) <=
                     std::max(memory.memory, storage.storage) + 1e-9);
        ++balanced;
      }
    }
  }
  CHECK(encoded > kInstances / 4);
  CHECK(balanced > kInstances / 4);
}

TEST_CASE("with weights longer than chunks, KVandW is balanced to the weight unit dropped last") {
  int checked = 0;
  for (std::uint64_t seed = 1; seed <= kInstances; ++seed) {
    std::mt19937_64 random(seed);
    const Instance instance = make_instance({true, false, false, false}, random);
    const PlannerInput& input = instance.input;
    double chunk = 0;
    double weights = INFINITY;
    const double price =
        instance.options.cpu_price * input.profile.decode_cpu_s_per_byte / instance.options.cores;
    const auto read = [&](const PlannedUnit& unit) {
      return static_cast<double>(unit.bytes) / read_rate(input, unit.unit);
    };
    const auto decode = [&](const PlannedUnit& unit) {
      return static_cast<double>(unit.bytes) * (1 / input.profile.decode_bytes_per_s + price);
    };
    for (const PlannedUnit& unit : input.units) {
      if (is_kv(unit.unit)) chunk = std::max({chunk, read(unit), decode(unit)});
      if (!is_kv(unit.unit)) weights = std::min(weights, read(unit));
    }
    if (chunk > weights) continue;
    const EvictionPlan plan =
        make_planner(instance.options)->plan(input, random() % (instance.held_bytes + 1));
    double difference = 0;
    double dropped_last = -1;
    for (const EvictionStep& step : plan.steps) {
      if (step.stage == EvictionStage::kCompKv || step.stage == EvictionStage::kWOnly) break;
      const PlannedUnit& unit = unit_of(input, step.unit);
      difference += step.to == UnitPlace::kCompressed ? -decode(unit) : read(unit);
      if (!is_kv(step.unit)) dropped_last = read(unit);
      if (dropped_last < 0) continue;
      REQUIRE_SEED(std::fabs(difference) <= dropped_last + 1e-9);
      ++checked;
    }
  }
  CHECK(checked > kInstances);
}

TEST_CASE("a plan in two parts is the plan made at once") {
  int encoded_at_once = 0;
  for (std::uint64_t seed = 1; seed <= kInstances; ++seed) {
    std::mt19937_64 random(seed);
    const Instance instance = make_instance({}, random);
    const auto planner = make_planner(instance.options);
    const std::uint64_t first_asked = random() % (instance.held_bytes + 1);
    const std::uint64_t second_asked = random() % (instance.held_bytes + 1);
    const EvictionPlan first = planner->plan(instance.input, first_asked);
    const PlannerInput between = apply(instance.input, first);
    const EvictionPlan second = planner->plan(between, second_asked);
    const PlannerInput in_parts = apply(between, second);
    // What the first part freed too much counts: from there on the steps must be the same ones.
    const EvictionPlan whole = planner->plan(instance.input, first.freed_bytes + second_asked);
    const PlannerInput at_once = apply(instance.input, whole);
    // A chunk that the first part compressed goes to the file as it is; at once it may be encoded
    // for storage.
    if (std::ranges::any_of(whole.steps, [](const EvictionStep& step) {
          return step.encoded && step.stage == EvictionStage::kCompKv;
        })) {
      ++encoded_at_once;
      continue;
    }
    REQUIRE_SEED(places(in_parts) == places(at_once));
    REQUIRE_SEED(first.freed_bytes + second.freed_bytes == whole.freed_bytes);
    REQUIRE_SEED(in_parts.storage_free == at_once.storage_free);
    REQUIRE_SEED(in_parts.memory_swap_free == at_once.memory_swap_free);
    REQUIRE_SEED(std::fabs(second.restore_storage_s - whole.restore_storage_s) < 1e-6);
    REQUIRE_SEED(std::fabs(second.restore_memory_s - whole.restore_memory_s) < 1e-6);
  }
  CHECK(encoded_at_once > 1'000);
  CHECK(encoded_at_once < kInstances / 4);
}

TEST_CASE("evicting everything leaves nothing resident or compressed") {
  for (std::uint64_t seed = 1; seed <= kInstances; ++seed) {
    std::mt19937_64 random(seed);
    Instance instance = make_instance({}, random);
    if (seed % 4 == 0) instance.options.order = EvictionOrder::kOptimal;
    instance.input.storage_free = ~0ULL;
    const auto planner = make_planner(instance.options);
    const PlannerInput after =
        apply(instance.input, planner->plan(instance.input, instance.held_bytes));
    for (const PlannedUnit& unit : after.units) {
      REQUIRE_SEED(unit.place != UnitPlace::kResident);
      REQUIRE_SEED(unit.place != UnitPlace::kCompressed);
    }
  }
}

TEST_CASE("a second identical cycle writes and encodes nothing where copies were kept") {
  for (std::uint64_t seed = 1; seed <= kInstances; ++seed) {
    std::mt19937_64 random(seed);
    Instance instance = make_instance({true, false, true}, random);
    const auto planner = make_planner(instance.options);
    const std::uint64_t asked = random() % (instance.held_bytes + 1);
    const EvictionPlan first = planner->plan(instance.input, asked);
    std::set<actors::UnitId> moved;
    for (const EvictionStep& step : first.steps) {
      if (step.stage == EvictionStage::kCompKv) moved.insert(step.unit);
    }
    PlannerInput again = apply(instance.input, first);
    const bool keep_compressed = random() % 2 == 0;
    for (PlannedUnit& unit : again.units) {
      if (is_kv(unit.unit) && unit.place == UnitPlace::kStored) unit.stored_clean = true;
      if (unit.place == UnitPlace::kCompressed && keep_compressed) unit.compressed_clean = true;
      unit.place = UnitPlace::kResident;
    }
    // With kept forms each such chunk frees more, so the same request may need fewer steps.
    for (const EvictionStep& step : planner->plan(again, asked).steps) {
      const PlannedUnit& unit = unit_of(again, step.unit);
      if (step.to == UnitPlace::kStored) REQUIRE_SEED(unit.stored_clean);
      // A chunk whose encoded form went on to the swap file has none in memory to reuse: it is
      // encoded again where the request is met before CompKV comes to it.
      if (step.to == UnitPlace::kCompressed && keep_compressed && !moved.contains(step.unit)) {
        REQUIRE_SEED(unit.compressed_clean);
      }
    }
  }
}

TEST_CASE("random-out follows its seed, and no order depends on how the units are listed") {
  int different = 0;
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    std::mt19937_64 random(seed);
    Instance instance = make_instance({true, false, false}, random);
    const auto units = [&] {
      std::vector<actors::UnitId> named;
      for (const auto& step :
           make_planner(instance.options)->plan(instance.input, instance.held_bytes / 2).steps) {
        named.push_back(step.unit);
      }
      return named;
    };
    const auto before = units();
    std::shuffle(instance.input.units.begin(), instance.input.units.end(), random);
    REQUIRE_SEED(units() == before);
    instance.options.seed ^= 1;
    if (instance.options.order == EvictionOrder::kRandomOut) {
      different += units() != before;
    } else {
      REQUIRE_SEED(units() == before);
    }
  }
  CHECK(different > 500);
}
