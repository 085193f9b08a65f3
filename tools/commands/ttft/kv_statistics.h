// What keys and values of a real model look like, channel by channel, and contexts drawn like them:
// so that a long context needs no prefill and codecs save on it what they save on a real one.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "actors/kv_shape.h"

namespace mzcache::tools {

// One layer. Channels run over the concatenated KV heads; K is without its rotation. V is in units
// of its token's root mean square, which itself is exp(v_log_rms + v_log_rms_sigma · normal).
struct LayerStatistics {
  std::vector<float> k_mean, k_sigma, v_mean, v_sigma;
  std::vector<float> k_first, v_first;  // the first token, which attention uses as a sink
  float v_log_rms = 0;
  float v_log_rms_sigma = 0;
};

struct KvStatistics {
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  bool split_halves = false;  // how dims are paired by the rotation
  std::vector<LayerStatistics> layers;
};

// Some layers of SmolLM2-135M-Instruct over English text.
[[nodiscard]] const KvStatistics& recorded_statistics();

// Takes whole chunks, some layers of a model in any order.
class StatisticsRecorder {
 public:
  StatisticsRecorder(const actors::KvShape& shape, std::uint32_t layers);
  void add(const actors::ChunkView& chunk);
  // The table as kv_statistics.inc holds it, of `layers` of the layers, evenly spread.
  [[nodiscard]] std::string table(std::uint32_t layers) const;

 private:
  struct Sums {
    std::vector<double> k, k2, v, v2, k_first, v_first;
    double log_rms = 0, log_rms2 = 0;
    std::uint64_t tokens = 0;
  };
  const actors::KvShape& shape_;
  std::vector<Sums> layers_;
};

// Draws chunks of a model's own shape: channels, pairs and layers of the table stretched over it.
class RandomKv {
 public:
  RandomKv(const KvStatistics& statistics, const actors::KvShape& shape, std::uint64_t seed);
  void fill(const actors::MutableChunkView& chunk);

 private:
  struct Channel {
    float k_mean, k_sigma, v_mean, v_sigma, k_first, v_first;
  };
  static constexpr std::size_t kNormals = std::size_t{1} << 16;

  [[nodiscard]] float normal() noexcept;
  void draw_layer(std::uint32_t layer);

  const KvStatistics& statistics_;
  const actors::KvShape& shape_;
  std::vector<float> normals_;
  std::uint64_t state_;
  std::uint32_t layer_ = ~0U;  // whose channels are spread out
  std::vector<Channel> channels_;
  float v_log_rms_ = 0;
  float v_log_rms_sigma_ = 0;
  std::vector<float> row_;
};

}  // namespace mzcache::tools
