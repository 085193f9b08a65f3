// An oracle for the eviction policy: models of real shape scaled down to at most ten units, a model
// of the restore pipeline, and the best of all placements by exhaustive search.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/planner.h"

namespace mzcache::engine::test {

// One model, context and device. All layers are alike, and so are all chunks.
struct OracleInstance {
  std::string name;
  PlannerInput input;  // everything resident
  std::uint32_t layers = 0;
  std::uint32_t chunks = 0;  // per layer
  std::uint64_t weight_bytes = 0;
  std::uint64_t head_bytes = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint64_t compressed_bytes = 0;
  double layer_compute_s = 0;
  double head_compute_s = 0;
  std::uint32_t shared_cores = 0;  // 0: the device computes beside the CPU
  std::uint64_t asked_bytes = 0;

  [[nodiscard]] std::uint64_t footprint() const {
    return layers * (weight_bytes + chunks * chunk_bytes) + head_bytes;
  }
};

// A layer's units by where they are; chunks of a layer are alike, so their numbers say all.
struct LayerPlacement {
  bool weights_dropped = false;
  std::uint32_t compressed = 0;
  std::uint32_t stored = 0;          // as they lay in memory
  std::uint32_t stored_encoded = 0;  // read, then decoded
};

// Layers in forward order, then the head.
using Placement = std::vector<LayerPlacement>;

enum class OracleScale : std::uint8_t { kTenUnits, kReal };

// The shape of one of four real models; asked for 10 to 100 % of the footprint.
OracleInstance make_oracle_instance(std::mt19937_64& random, bool shared_cores, OracleScale scale);

// Time to the last layer's (the head's) end. Both restore paths work in forward order without
// pause, a layer is computed when all its units are there and the layer before it is done. On
// shared cores a decode holds one of them: computing goes on at (cores − 1) / cores of its speed.
double time_to_first_token(const OracleInstance& instance, const Placement& placement);

std::uint64_t freed_bytes(const OracleInstance& instance, const Placement& placement);
Placement placement_of(const OracleInstance& instance, const EvictionPlan& plan);

// The shortest time over all placements that free at least `asked`.
struct BestPlacement {
  Placement placement;
  double seconds = 0;
};
BestPlacement best_placement(const OracleInstance& instance, std::uint64_t asked);

// No placement is faster, however small the units: reading frees bytes at the read rate, decoding
// at what the codec saves of the decode rate, both from the first moment to the last.
double time_bound(const OracleInstance& instance, std::uint64_t asked);

// "W1 c2 s1 | … | H": what left, by layer; c compressed, s stored, x stored encoded.
std::string to_text(const Placement& placement);

}  // namespace mzcache::engine::test
