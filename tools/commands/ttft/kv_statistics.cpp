#include "commands/ttft/kv_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

#include "codec/chunk_values.h"
#include "codec/half.h"
#include "codec/rope_table.h"

namespace mzcache::tools {
namespace {

using actors::RopeDescription;

// kRecorded*: the table.
#include "commands/ttft/kv_statistics.inc"

// Turns a token's keys by their position: forwards, or back.
void rotate(std::span<float> k, std::uint32_t head_dim, const codec::RopeOffsets& rope,
            std::uint32_t position, bool forwards) {
  std::vector<double> cosines(rope.pairs);
  std::vector<double> sines(rope.pairs);
  codec::base_angles(rope, position, cosines.data(), sines.data());
  const bool split = rope.rope.pairing == RopeDescription::Pairing::kSplitHalves;
  for (std::size_t head = 0; head < k.size(); head += head_dim) {
    for (std::uint32_t pair = 0; pair < rope.pairs; ++pair) {
      float& a = k[head + (split ? pair : 2 * pair)];
      float& b = k[head + (split ? pair + rope.pairs : 2 * pair + 1)];
      const auto cosine = static_cast<float>(cosines[pair]);
      const auto sine = static_cast<float>(forwards ? sines[pair] : -sines[pair]);
      const float turned = a * cosine - b * sine;
      b = a * sine + b * cosine;
      a = turned;
    }
  }
}

double spread(double sum, double squares, double count) {
  const double mean = sum / count;
  return std::sqrt(std::max(squares / count - mean * mean, 0.0));
}

// Where a channel of the shape finds its like in the table: the pair of dims at the same share of
// the head, the same half of it.
std::size_t source_channel(const KvStatistics& from, std::uint32_t channel, std::uint32_t head_dim,
                           bool split) {
  const std::uint32_t head = channel / head_dim % from.kv_heads;
  const std::uint32_t dim = channel % head_dim;
  const std::uint32_t pairs = std::max(1U, head_dim / 2);
  const std::uint32_t pair = std::min(split ? dim % pairs : dim / 2, pairs - 1);
  const bool second = split ? dim >= pairs : dim % 2 == 1;
  const std::uint32_t like = pair * (from.head_dim / 2) / pairs;
  const std::uint32_t there =
      from.split_halves ? like + (second ? from.head_dim / 2 : 0) : 2 * like + (second ? 1U : 0U);
  return std::size_t{head} * from.head_dim + there;
}

KvStatistics make_recorded() {
  KvStatistics statistics{kRecordedKvHeads, kRecordedHeadDim, kRecordedSplitHalves, {}};
  const std::size_t width = std::size_t{kRecordedKvHeads} * kRecordedHeadDim;
  const float* next = std::begin(kRecorded);
  while (next != std::end(kRecorded)) {
    LayerStatistics& layer = statistics.layers.emplace_back();
    layer.v_log_rms = *next++;
    layer.v_log_rms_sigma = *next++;
    for (auto* field : {&layer.k_mean, &layer.k_sigma, &layer.v_mean, &layer.v_sigma,
                        &layer.k_first, &layer.v_first}) {
      field->assign(next, next + width);
      next += width;
    }
  }
  return statistics;
}

std::shared_ptr<const codec::RopeOffsets> rope_of(const RopeDescription* rope,
                                                  const actors::ChunkLayout& layout) {
  static const codec::RopeTables tables;
  return tables.get(rope, layout.head_dim, layout.tokens);
}

}  // namespace

const KvStatistics& recorded_statistics() {
  static const KvStatistics statistics = make_recorded();
  return statistics;
}

StatisticsRecorder::StatisticsRecorder(const actors::KvShape& shape, std::uint32_t layers)
    : shape_(shape), layers_(layers) {
  const std::size_t width = std::size_t{shape.layout.kv_heads} * shape.layout.head_dim;
  for (Sums& sums : layers_) {
    for (auto* field : {&sums.k, &sums.k2, &sums.v, &sums.v2, &sums.k_first, &sums.v_first}) {
      field->resize(width);
    }
  }
}

void StatisticsRecorder::add(const actors::ChunkView& chunk) {
  const actors::ChunkLayout& layout = *chunk.layout;
  Sums& sums = layers_.at(chunk.layer);
  const std::size_t width = sums.k.size();
  const auto rope = rope_of(chunk.rope, layout);
  std::vector<float> k(width);
  std::vector<float> v(width);
  const auto at = [&](std::uint64_t index) {
    return codec::half_to_float(codec::load_half(chunk.bytes.data() + 2 * index));
  };
  for (std::uint32_t token = 0; token < chunk.token_count; ++token) {
    double energy = 0;
    for (std::uint32_t c = 0; c < width; ++c) {
      k[c] = at(codec::k_index(layout, token, c));
      v[c] = at(layout.values_per_half() + codec::v_index(layout, token, c));
      energy += double{v[c]} * double{v[c]};
    }
    rotate(k, layout.head_dim, *rope, chunk.first_position + token, false);
    if (chunk.first_position + token == 0) {
      sums.k_first.assign(k.begin(), k.end());
      sums.v_first.assign(v.begin(), v.end());
      continue;
    }
    const double rms = std::sqrt(energy / static_cast<double>(width));
    if (rms <= 0) continue;
    for (std::size_t c = 0; c < width; ++c) {
      sums.k[c] += double{k[c]};
      sums.k2[c] += double{k[c]} * double{k[c]};
      sums.v[c] += double{v[c]} / rms;
      sums.v2[c] += double{v[c]} * double{v[c]} / rms / rms;
    }
    sums.log_rms += std::log(rms);
    sums.log_rms2 += std::log(rms) * std::log(rms);
    ++sums.tokens;
  }
}

std::string StatisticsRecorder::table(std::uint32_t layers) const {
  const bool split = shape_.ropes.front().pairing == RopeDescription::Pairing::kSplitHalves;
  std::string text = fmt::format(
      "// Made by `mzcache bench ttft --fill prefill --record`; see kv_statistics.h.\n"
      "constexpr std::uint32_t kRecordedKvHeads = {};\n"
      "constexpr std::uint32_t kRecordedHeadDim = {};\n"
      "constexpr bool kRecordedSplitHalves = {};\n"
      "// By layer: v_log_rms, v_log_rms_sigma, then k_mean, k_sigma, v_mean, v_sigma, k_first,\n"
      "// v_first of every channel.\n"
      "constexpr float kRecorded[] = {{\n",
      shape_.layout.kv_heads, shape_.layout.head_dim, split);
  std::size_t column = 0;
  const auto put = [&](double value) {
    const std::string number = fmt::format("{:.3g}", value);
    const bool whole = number.find_first_of(".e") == std::string::npos;
    const std::string piece = number + (whole ? ".F, " : "F, ");
    if (column + piece.size() > 100) {
      text += '\n';
      column = 0;
    }
    text += piece;
    column += piece.size();
  };
  for (std::uint32_t i = 0; i < layers; ++i) {
    const Sums& sums = layers_[i * (layers_.size() - 1) / std::max(1U, layers - 1)];
    const auto count = static_cast<double>(std::max<std::uint64_t>(1, sums.tokens));
    put(sums.log_rms / count);
    put(spread(sums.log_rms, sums.log_rms2, count));
    for (const double k : sums.k) put(k / count);
    for (std::size_t c = 0; c < sums.k.size(); ++c) put(spread(sums.k[c], sums.k2[c], count));
    for (const double v : sums.v) put(v / count);
    for (std::size_t c = 0; c < sums.v.size(); ++c) put(spread(sums.v[c], sums.v2[c], count));
    for (const double k : sums.k_first) put(k);
    for (const double v : sums.v_first) put(v);
  }
  return text + "\n};\n";
}

RandomKv::RandomKv(const KvStatistics& statistics, const actors::KvShape& shape, std::uint64_t seed)
    : statistics_(statistics), shape_(shape), normals_(kNormals), state_(seed * 2 + 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : normals_) value = normal(random);
}

float RandomKv::normal() noexcept {
  state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
  return normals_[state_ >> 48];
}

void RandomKv::draw_layer(std::uint32_t layer) {
  if (std::exchange(layer_, layer) == layer) return;
  const std::size_t layers = std::max<std::size_t>(2, shape_.ropes.size());
  const LayerStatistics& from =
      statistics_.layers[layer * (statistics_.layers.size() - 1) / (layers - 1)];
  const bool split = shape_.ropes[layer].pairing == RopeDescription::Pairing::kSplitHalves;
  const std::uint32_t width = shape_.layout.kv_heads * shape_.layout.head_dim;
  channels_.clear();
  for (std::uint32_t c = 0; c < width; ++c) {
    const std::size_t like = source_channel(statistics_, c, shape_.layout.head_dim, split);
    channels_.push_back({from.k_mean[like], from.k_sigma[like], from.v_mean[like],
                         from.v_sigma[like], from.k_first[like], from.v_first[like]});
  }
  v_log_rms_ = from.v_log_rms;
  v_log_rms_sigma_ = from.v_log_rms_sigma;
}

void RandomKv::fill(const actors::MutableChunkView& chunk) {
  draw_layer(chunk.layer);
  const actors::ChunkLayout& layout = *chunk.layout;
  const auto rope = rope_of(chunk.rope, layout);
  const auto put = [&](std::uint64_t index, float value) {
    codec::store_half(chunk.bytes.data() + 2 * index, codec::float_to_half(value));
  };
  row_.resize(channels_.size());
  for (std::uint32_t token = 0; token < chunk.token_count; ++token) {
    const bool first = chunk.first_position + token == 0;
    const float rms = std::exp(v_log_rms_ + v_log_rms_sigma_ * normal());
    for (std::uint32_t c = 0; c < channels_.size(); ++c) {
      const Channel& channel = channels_[c];
      row_[c] = first ? channel.k_first : channel.k_mean + channel.k_sigma * normal();
      put(layout.values_per_half() + codec::v_index(layout, token, c),
          first ? channel.v_first : rms * (channel.v_mean + channel.v_sigma * normal()));
    }
    rotate(row_, layout.head_dim, *rope, chunk.first_position + token, true);
    for (std::uint32_t c = 0; c < channels_.size(); ++c) {
      put(codec::k_index(layout, token, c), row_[c]);
    }
  }
}

}  // namespace mzcache::tools
