#include <algorithm>
#include <cmath>
#include <tuple>

#include "planner_instances.h"

namespace mzcache::engine::test {
namespace {

using actors::UnitKind;

std::uint64_t pick(std::mt19937_64& random, std::uint64_t low, std::uint64_t high) {
  return low + random() % (high - low + 1);
}
double pick_rate(std::mt19937_64& random) {  // 0.1 to 20 GB/s, even in the logarithm
  return 1e8 * std::exp2(static_cast<double>(random() % 1024) / 1024 * 7.6);
}

// A codec for storage that leaves a tenth to nearly all of a chunk, at a rate of its own or not.
void pick_storage_codec(PlannerInput& input, std::mt19937_64& random) {
  const std::uint64_t left_percent = pick(random, 10, 99);
  for (PlannedUnit& unit : input.units) {
    if (unit.unit.kind != UnitKind::kKv) continue;
    unit.stored_bytes = std::max<std::uint64_t>(1, unit.bytes * left_percent / 100);
  }
  if (random() % 4 == 0) return;
  input.profile.storage_decode_bytes_per_s = pick_rate(random);
  input.profile.storage_decode_cpu_s_per_byte = 1 / pick_rate(random);
}

void pick_places(std::vector<PlannedUnit>& units, std::mt19937_64& random) {
  for (PlannedUnit& unit : units) {
    const bool kv = unit.unit.kind == UnitKind::kKv;
    const std::uint64_t turn = random() % 8;
    unit.place = turn < 5 ? UnitPlace::kResident : UnitPlace::kDropped;
    if (!kv) continue;
    if (turn == 5) unit.place = UnitPlace::kCompressed;
    if (turn == 6) unit.place = UnitPlace::kStored;
    unit.stored_compressed = random() % 4 == 0;
    if (unit.place == UnitPlace::kResident || unit.place == UnitPlace::kCompressed) {
      unit.stored_clean = random() % 4 == 0;
    }
    if (unit.place == UnitPlace::kResident) unit.compressed_clean = random() % 8 == 0;
  }
}

// One round of splitmix64 (Steele, Lea, Flood 2014): what the next of a generator at `state` gives.
std::uint64_t splitmix(std::uint64_t state) {
  std::uint64_t z = state + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

std::uint64_t turn_of(std::uint64_t seed, const actors::UnitId& unit) {
  const std::uint64_t words[] = {static_cast<std::uint64_t>(unit.kind),
                                 (static_cast<std::uint64_t>(unit.layer) << 32) + unit.context,
                                 unit.chunk};
  std::uint64_t turn = splitmix(seed);
  for (const std::uint64_t word : words) turn = splitmix(turn ^ word);
  return turn;
}

PlannerOptions pick_options(const InstanceKind& kind, std::mt19937_64& random) {
  PlannerOptions options;
  options.order = static_cast<EvictionOrder>(random() % 3);
  options.seed = random();
  options.cores = static_cast<std::uint32_t>(pick(random, 1, 8));
  options.cpu_price = random() % 2 == 0 ? 0 : static_cast<double>(random() % 200) / 100;
  if (kind.any_paths) {
    options.paths = static_cast<EvictionPaths>(random() % 3);
    options.memory_closed = random() % 5 == 0;
  }
  return options;
}

}  // namespace

Instance make_instance(const InstanceKind& kind, std::mt19937_64& random) {
  Instance instance;
  PlannerInput& input = instance.input;
  instance.options = pick_options(kind, random);
  input.layers = static_cast<std::uint32_t>(pick(random, 1, 8));
  const std::uint64_t weight_scale = std::uint64_t{4096} << (random() % 14);
  const std::uint64_t chunk_bytes = 4096 * pick(random, 1, 256);
  const std::uint64_t saved_percent = kind.any_paths ? pick(random, 0, 90) : pick(random, 10, 90);
  for (std::uint32_t layer = 0; layer < input.layers; ++layer) {
    input.units.push_back(
        {actors::weights_unit(layer), UnitPlace::kResident, weight_scale * pick(random, 1, 3), 0});
  }
  input.units.push_back({actors::head_unit(input.layers), UnitPlace::kResident,
                         weight_scale * pick(random, 1, 20), 0});
  const std::uint64_t contexts = random() % 3;
  for (std::uint32_t context = 0; context < contexts; ++context) {
    const std::uint64_t chunks = random() % 8;
    for (std::uint32_t layer = 0; layer < input.layers; ++layer) {
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
        const std::uint64_t compressed =
            chunk_bytes * (100 - saved_percent) / 100 +
            (kind.any_paths ? random() % (chunk_bytes / 16) : random() % 64);
        input.units.push_back({actors::kv_unit(context, layer, chunk), UnitPlace::kResident,
                               chunk_bytes, compressed});
      }
    }
  }
  if (!kind.full_residency) pick_places(input.units, random);
  input.profile.model_read_bytes_per_s = pick_rate(random);
  input.profile.swap_read_bytes_per_s = pick_rate(random);
  input.profile.decode_bytes_per_s = pick_rate(random);
  input.profile.decode_cpu_s_per_byte = 1 / pick_rate(random);
  instance.held_bytes = held_bytes(input);
  if (kind.budgets && random() % 2 == 0)
    input.memory_swap_free = random() % (instance.held_bytes + 1);
  if (kind.budgets && random() % 2 == 0) input.storage_free = random() % (instance.held_bytes + 1);
  if (kind.storage_codec && random() % 2 == 0) pick_storage_codec(input, random);
  std::shuffle(input.units.begin(), input.units.end(), random);
  return instance;
}

std::uint64_t held_bytes(const PlannerInput& input) {
  std::uint64_t held = 0;
  for (const PlannedUnit& unit : input.units) {
    if (unit.place == UnitPlace::kResident) held += unit.bytes;
    if (unit.place == UnitPlace::kCompressed) held += unit.compressed_bytes;
    if (unit.place == UnitPlace::kResident && unit.compressed_clean) held += unit.compressed_bytes;
  }
  return held;
}

PlannerInput apply(const PlannerInput& input, const EvictionPlan& plan) {
  PlannerInput after = input;
  const bool memory_limited = input.memory_swap_free != ~0ULL;
  const bool storage_limited = input.storage_free != ~0ULL;
  for (const EvictionStep& step : plan.steps) {
    const auto unit = std::find_if(after.units.begin(), after.units.end(),
                                   [&](const PlannedUnit& u) { return u.unit == step.unit; });
    const bool encoded_in_memory = unit->place == UnitPlace::kCompressed || unit->compressed_clean;
    if (step.to == UnitPlace::kCompressed && !encoded_in_memory && memory_limited) {
      after.memory_swap_free -= unit->compressed_bytes;
    }
    if (step.to == UnitPlace::kStored) {
      const bool moved = step.stage == EvictionStage::kCompKv;
      if (!unit->stored_clean) {
        const bool as_in_memory = moved && !step.encoded;
        if (storage_limited) {
          after.storage_free -= as_in_memory ? unit->compressed_bytes : unit->bytes_when_stored();
        }
        unit->stored_compressed = as_in_memory;
        unit->stored_last = moved;
      }
      if (moved && encoded_in_memory && memory_limited) {
        after.memory_swap_free += unit->compressed_bytes;
      }
    }
    unit->place = step.to;
  }
  return after;
}

bool leaves_before(const PlannerOptions& options, const actors::UnitId& before,
                   const actors::UnitId& after) {
  const auto key = [&](const actors::UnitId& unit) {
    const bool random = options.order == EvictionOrder::kRandomOut;
    return std::tuple(random ? turn_of(options.seed, unit) : 0, unit.layer, unit.context,
                      unit.chunk);
  };
  const bool backward =
      options.order == EvictionOrder::kBackwardOut || options.order == EvictionOrder::kOptimal;
  return backward ? key(before) > key(after) : key(before) < key(after);
}

std::map<actors::UnitId, UnitPlace> places(const PlannerInput& input) {
  std::map<actors::UnitId, UnitPlace> result;
  for (const PlannedUnit& unit : input.units) result[unit.unit] = unit.place;
  return result;
}

}  // namespace mzcache::engine::test
