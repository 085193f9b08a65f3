#include <algorithm>
#include <cmath>
#include <utility>

#include "planner_oracle.h"

namespace mzcache::engine::test {
namespace {

struct Shape {
  const char* name;
  std::uint64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary;
};
constexpr Shape kShapes[] = {
    {"SmolLM2-135M", 30, 576, 9, 3, 64, 1536, 49152},
    {"Qwen3-0.6B", 28, 1024, 16, 8, 128, 3072, 151936},
    {"EXAONE-4.0-1.2B", 30, 2048, 32, 8, 64, 4096, 102400},
    {"Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, 128256},
};
constexpr double kBytesPerWeight[] = {2, 1.0625, 0.625};      // FP16, Q8_0, Q4_1
constexpr double kCompressedShare[] = {0.53125, 0.28, 0.19};  // 8 bits, 4 bits, entropy coded
// Layers × chunks that make at most ten units with the head.
constexpr std::pair<std::uint32_t, std::uint32_t> kCuts[] = {{1, 3}, {1, 5}, {1, 8}, {2, 1}, {2, 2},
                                                             {2, 3}, {3, 1}, {3, 2}, {4, 1}};

double between(std::mt19937_64& random, double low, double high) {  // even in the logarithm
  return low * std::pow(high / low, static_cast<double>(random() % 4096) / 4096);
}

std::uint64_t to_bytes(double bytes) { return static_cast<std::uint64_t>(std::llround(bytes)); }

void add_units(OracleInstance& instance) {
  PlannerInput& input = instance.input;
  input.layers = instance.layers;
  for (std::uint32_t layer = 0; layer < instance.layers; ++layer) {
    input.units.push_back(
        {actors::weights_unit(layer), UnitPlace::kResident, instance.weight_bytes, 0});
    for (std::uint32_t chunk = 0; chunk < instance.chunks; ++chunk) {
      input.units.push_back({actors::kv_unit(0, layer, chunk), UnitPlace::kResident,
                             instance.chunk_bytes, instance.compressed_bytes});
    }
  }
  input.units.push_back(
      {actors::head_unit(instance.layers), UnitPlace::kResident, instance.head_bytes, 0});
}

struct Times {
  double weights, head, chunk, encoded, decode;
  explicit Times(const OracleInstance& i) {
    const RestoreProfile& profile = i.input.profile;
    weights = static_cast<double>(i.weight_bytes) / profile.model_read_bytes_per_s;
    head = static_cast<double>(i.head_bytes) / profile.model_read_bytes_per_s;
    chunk = static_cast<double>(i.chunk_bytes) / profile.swap_read_bytes_per_s;
    encoded = static_cast<double>(i.compressed_bytes) / profile.swap_read_bytes_per_s;
    decode = static_cast<double>(i.chunk_bytes) / i.input.profile.decode_bytes_per_s;
  }
};

// Where the restore paths stand; `busy` are the decodes' intervals, in order.
struct Paths {
  double storage = 0;
  double memory = 0;
  std::vector<std::pair<double, double>> busy;

  // Restores a layer; when its last unit is there.
  double restore(const LayerPlacement& layer, double weights_s, const Times& times) {
    double ready = 0;
    if (layer.weights_dropped) ready = storage += weights_s;
    if (layer.compressed != 0) ready = std::max(ready, decode(0, layer.compressed, times));
    for (std::uint32_t i = 0; i < layer.stored_encoded; ++i) {
      storage += times.encoded;
      ready = std::max(ready, decode(storage, 1, times));
    }
    storage += layer.stored * times.chunk;
    return layer.stored != 0 ? std::max(ready, storage) : ready;
  }

 private:
  double decode(double earliest, std::uint32_t chunks, const Times& times) {
    const double start = std::max(memory, earliest);
    memory = start + chunks * times.decode;
    if (!busy.empty() && busy.back().second == start) {
      busy.back().second = memory;
    } else {
      busy.emplace_back(start, memory);
    }
    return memory;
  }
};

// The end of `work` seconds of computing from `start`, beside decodes on shared cores.
double compute(double start, double work, const Paths& paths, std::uint32_t cores) {
  if (cores == 0) return start + work;
  const double share = (cores - 1.0) / cores;
  for (const auto& [begin, end] : paths.busy) {
    if (end <= start) continue;
    const double alone = std::max(0.0, begin - start);
    if (work <= alone) break;
    work -= alone;
    start = std::max(start, begin);
    if (work <= (end - start) * share) return start + work / share;
    work -= (end - start) * share;
    start = end;
  }
  return start + work;
}

// Depth first over the layers in forward order. A branch ends where its layers so far are already
// as late as the best, or where the rest can't free enough.
class Search {
 public:
  Search(const OracleInstance& instance, std::uint64_t asked)
      : instance_(instance), times_(instance), asked_(asked), now_(instance.layers + 1) {
    best_.seconds = INFINITY;
    for (std::uint32_t c = 0; c <= instance.chunks; ++c) {
      for (std::uint32_t s = 0; c + s <= instance.chunks; ++s) {
        for (std::uint32_t x = 0; c + s + x <= instance.chunks; ++x) {
          for (const bool dropped : {false, true}) choices_.push_back({dropped, c, s, x});
        }
      }
    }
  }

  BestPlacement run() {
    descend(0, 0, 0, {});
    return std::move(best_);
  }

 private:
  void descend(std::uint32_t layer, std::uint64_t freed, double computed, const Paths& paths) {
    const OracleInstance& i = instance_;
    if (layer > i.layers) {
      const double seconds = i.shared_cores == 0 ? computed : time_to_first_token(i, now_);
      if (seconds < best_.seconds) best_ = {now_, seconds};
      return;
    }
    const bool head = layer == i.layers;
    const std::uint64_t later =  // the most that the layers behind this one can free
        head ? 0
             : (i.layers - layer - 1) * (i.weight_bytes + i.chunks * i.chunk_bytes) + i.head_bytes;
    const double after = head ? 0 : (i.layers - layer - 1) * i.layer_compute_s + i.head_compute_s;
    for (const LayerPlacement& choice : choices_) {
      if (head && choice.compressed + choice.stored + choice.stored_encoded != 0) continue;
      const std::uint64_t frees =
          (choice.weights_dropped ? (head ? i.head_bytes : i.weight_bytes) : 0) +
          choice.compressed * (i.chunk_bytes - i.compressed_bytes) +
          (choice.stored + choice.stored_encoded) * i.chunk_bytes;
      if (freed + frees + later < asked_) continue;
      Paths next = paths;
      const double ready = next.restore(choice, head ? times_.head : times_.weights, times_);
      const double end = std::max(computed, ready) + (head ? i.head_compute_s : i.layer_compute_s);
      if (end + after >= best_.seconds) continue;  // sharing the cores only adds to it
      now_[layer] = choice;
      descend(layer + 1, freed + frees, end, next);
    }
  }

  const OracleInstance& instance_;
  Times times_;
  std::uint64_t asked_;
  std::vector<LayerPlacement> choices_;
  Placement now_;
  BestPlacement best_;
};

}  // namespace

OracleInstance make_oracle_instance(std::mt19937_64& random, bool shared_cores, OracleScale scale) {
  OracleInstance instance;
  const Shape& shape = kShapes[random() % std::size(kShapes)];
  const double bytes_per_weight = kBytesPerWeight[random() % std::size(kBytesPerWeight)];
  const double context = between(random, 512, 32768);
  const double prompt = between(random, 16, 512);
  const auto cut = kCuts[random() % std::size(kCuts)];
  const bool real = scale == OracleScale::kReal;
  instance.name = shape.name;
  instance.layers = real ? static_cast<std::uint32_t>(shape.layers) : cut.first;
  instance.chunks = real ? static_cast<std::uint32_t>(std::ceil(context / 256)) : cut.second;
  // A scaled layer stands for so many real ones, a scaled chunk for so many tokens of each.
  const double merged = static_cast<double>(shape.layers) / instance.layers;
  const double tokens = real ? 256 : context / instance.chunks;

  const auto q_width = static_cast<double>(shape.heads * shape.head_dim);
  const auto kv_width = static_cast<double>(shape.kv_heads * shape.head_dim);
  const auto hidden = static_cast<double>(shape.hidden);
  const double weights =
      merged * hidden * (2 * q_width + 2 * kv_width + 3.0 * static_cast<double>(shape.ffn));
  instance.weight_bytes = to_bytes(weights * bytes_per_weight);
  instance.head_bytes = to_bytes(hidden * static_cast<double>(shape.vocabulary) * bytes_per_weight);
  const double chunk = merged * tokens * 2 * kv_width * 2;  // K and V of FP16
  instance.chunk_bytes = to_bytes(chunk);
  instance.compressed_bytes =
      to_bytes(chunk * kCompressedShare[random() % std::size(kCompressedShare)]);
  add_units(instance);

  RestoreProfile& profile = instance.input.profile;
  profile.model_read_bytes_per_s = profile.swap_read_bytes_per_s = between(random, 1e9, 6e9);
  profile.decode_bytes_per_s = between(random, 3e9, 30e9);
  profile.decode_cpu_s_per_byte = 1 / profile.decode_bytes_per_s;
  const double flops = shared_cores ? between(random, 5e10, 5e11) : between(random, 5e11, 5e12);
  const double memory = shared_cores ? 30e9 : 84.8e9;
  instance.shared_cores = shared_cores ? 2 + static_cast<std::uint32_t>(random() % 7) : 0;
  const double attention = 4 * q_width * merged * prompt * (context + prompt / 2);
  instance.layer_compute_s = std::max((2 * weights * prompt + attention) / flops,
                                      static_cast<double>(instance.weight_bytes) / memory);
  instance.head_compute_s = static_cast<double>(instance.head_bytes) / memory;
  instance.asked_bytes = instance.footprint() / 1000 * (100 + random() % 901);
  return instance;
}

double time_to_first_token(const OracleInstance& instance, const Placement& placement) {
  const Times times(instance);
  Paths paths;
  std::vector<double> ready;
  for (std::uint32_t layer = 0; layer <= instance.layers; ++layer) {
    const double weights = layer == instance.layers ? times.head : times.weights;
    ready.push_back(paths.restore(placement[layer], weights, times));
  }
  double now = 0;
  for (std::uint32_t layer = 0; layer <= instance.layers; ++layer) {
    const double work =
        layer == instance.layers ? instance.head_compute_s : instance.layer_compute_s;
    now = compute(std::max(now, ready[layer]), work, paths, instance.shared_cores);
  }
  return now;
}

std::uint64_t freed_bytes(const OracleInstance& instance, const Placement& placement) {
  std::uint64_t freed = 0;
  for (std::uint32_t layer = 0; layer <= instance.layers; ++layer) {
    const LayerPlacement& p = placement[layer];
    if (p.weights_dropped) {
      freed += layer == instance.layers ? instance.head_bytes : instance.weight_bytes;
    }
    freed += p.compressed * (instance.chunk_bytes - instance.compressed_bytes) +
             (p.stored + p.stored_encoded) * instance.chunk_bytes;
  }
  return freed;
}

Placement placement_of(const OracleInstance& instance, const EvictionPlan& plan) {
  Placement placement(instance.layers + 1);
  for (const EvictionStep& step : plan.steps) {
    LayerPlacement& layer = placement[step.unit.layer];
    if (step.to == UnitPlace::kDropped) layer.weights_dropped = true;
    if (step.to == UnitPlace::kCompressed) ++layer.compressed;
    if (step.to != UnitPlace::kStored) continue;
    ++(step.stage == EvictionStage::kCompKv ? layer.stored_encoded : layer.stored);
  }
  return placement;
}

BestPlacement best_placement(const OracleInstance& instance, std::uint64_t asked) {
  return Search(instance, asked).run();
}

double time_bound(const OracleInstance& instance, std::uint64_t asked) {
  const double read = std::max(instance.input.profile.model_read_bytes_per_s,
                               instance.input.profile.swap_read_bytes_per_s);
  const double decode = instance.input.profile.decode_bytes_per_s;
  const double saved = 1 - static_cast<double>(instance.compressed_bytes) /
                               static_cast<double>(instance.chunk_bytes);
  const double kv = static_cast<double>(instance.layers) * instance.chunks *
                    static_cast<double>(instance.chunk_bytes);
  const auto bytes = static_cast<double>(asked);
  // While there are chunks to decode, else with all of them encoded.
  const double balanced = bytes / (read + saved * decode);
  const double paths = balanced * decode <= kv ? balanced : (bytes - saved * kv) / read;
  return std::max(paths, instance.layers * instance.layer_compute_s + instance.head_compute_s);
}

std::string to_text(const Placement& placement) {
  std::string text;
  for (std::size_t layer = 0; layer < placement.size(); ++layer) {
    const LayerPlacement& p = placement[layer];
    if (layer != 0) text += " |";
    if (p.weights_dropped) text += layer + 1 == placement.size() ? " H" : " W";
    if (p.compressed != 0) text += " c" + std::to_string(p.compressed);
    if (p.stored != 0) text += " s" + std::to_string(p.stored);
    if (p.stored_encoded != 0) text += " x" + std::to_string(p.stored_encoded);
  }
  return text;
}

}  // namespace mzcache::engine::test
