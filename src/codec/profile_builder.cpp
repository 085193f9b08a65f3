#include <algorithm>
#include <cmath>

#include "codec/channel_quantiser.h"
#include "codec/chunk_values.h"
#include "codec/half.h"
#include "codec/kv_profile.h"
#include "codec/rope_table.h"

namespace mzcache::codec {
namespace {

double spread(double sum, double squares, double count) {
  const double mean = sum / count;
  return std::sqrt(std::max(squares / count - mean * mean, 0.0));
}

}  // namespace

ProfileBuilder::ProfileBuilder(const actors::ChunkLayout& layout, std::uint32_t layers)
    : layout_(layout), width_(layout.kv_heads * layout.head_dim), layers_(layers) {
  for (Sums& sums : layers_) {
    for (auto* field : {&sums.k, &sums.k2, &sums.q2, &sums.v, &sums.v2}) field->resize(width_);
  }
}

void ProfileBuilder::add_chunk(const actors::ChunkView& chunk, std::uint32_t every) {
  Sums& sums = layers_.at(chunk.layer);
  const RopeTables tables;
  const auto rope = tables.get(chunk.rope, layout_.head_dim, layout_.tokens);
  std::vector<double> cosines(rope->pairs);
  std::vector<double> sines(rope->pairs);
  std::vector<float> row(width_);
  const auto half_at = [&](std::uint64_t index) {
    return half_to_float(load_half(chunk.bytes.data() + 2 * index));
  };
  const bool split = rope->rope.pairing == actors::RopeDescription::Pairing::kSplitHalves;
  const std::uint32_t first = chunk.first_position == 0 ? kSinkTokens : 0;
  for (std::uint32_t token = first; token < chunk.token_count; token += every) {
    base_angles(*rope, chunk.first_position + token, cosines.data(), sines.data());
    for (std::uint32_t c = 0; c < width_; ++c) row[c] = half_at(k_index(layout_, token, c));
    for (std::uint32_t head = 0; head < layout_.kv_heads; ++head) {
      float* const k = row.data() + std::size_t{head} * layout_.head_dim;
      for (std::uint32_t pair = 0; pair < rope->pairs; ++pair) {
        float& a = k[split ? pair : 2 * pair];
        float& b = k[split ? pair + rope->pairs : 2 * pair + 1];
        const auto cosine = static_cast<float>(cosines[pair]);
        const auto sine = static_cast<float>(sines[pair]);
        const float turned = a * cosine + b * sine;
        b = b * cosine - a * sine;
        a = turned;
      }
    }
    for (std::uint32_t c = 0; c < width_; ++c) {
      const double u = double{row[c]};
      sums.k[c] += u;
      sums.k2[c] += u * u;
    }
    double energy = 0;
    for (std::uint32_t c = 0; c < width_; ++c) {
      row[c] = half_at(layout_.values_per_half() + v_index(layout_, token, c));
      energy += double{row[c]} * double{row[c]};
    }
    const double rms = std::sqrt(energy / width_);
    for (std::uint32_t c = 0; c < width_ && rms > 0; ++c) {
      const double w = double{row[c]} / rms;
      sums.v[c] += w;
      sums.v2[c] += w * w;
    }
    ++sums.tokens;
  }
  if (chunk.layer == 0) tokens_ += chunk.token_count;
}

void ProfileBuilder::add_queries(std::uint32_t layer, std::span<const float> energy,
                                 std::uint32_t tokens, float scale,
                                 const actors::RopeDescription& rope) {
  Sums& sums = layers_.at(layer);
  const std::uint32_t dims = layout_.head_dim;
  const auto group = static_cast<std::uint32_t>(energy.size() / width_);  // query heads per KV head
  const std::uint32_t pairs = std::min(rope.dimensions, dims) / 2;
  const bool split = rope.pairing == actors::RopeDescription::Pairing::kSplitHalves;
  for (std::uint32_t head = 0; head < layout_.kv_heads; ++head) {
    std::vector<double> mean(dims);
    for (std::uint32_t query = 0; query < group; ++query) {
      const float* const from = energy.data() + (std::size_t{head} * group + query) * dims;
      for (std::uint32_t dim = 0; dim < dims; ++dim) mean[dim] += double{from[dim]} / group;
    }
    for (std::uint32_t pair = 0; pair < pairs; ++pair) {
      double& a = mean[split ? pair : 2 * pair];
      double& b = mean[split ? pair + pairs : 2 * pair + 1];
      a = b = (a + b) / 2;
    }
    for (std::uint32_t dim = 0; dim < dims; ++dim) {
      sums.q2[std::size_t{head} * dims + dim] += mean[dim] * double{scale} * double{scale};
    }
  }
  sums.queries += tokens;
}

Result<KvProfile> ProfileBuilder::build(std::uint64_t model) const {
  KvProfile profile;
  profile.model = model;
  profile.kv_heads = layout_.kv_heads;
  profile.head_dim = layout_.head_dim;
  profile.tokens = tokens_;
  for (const Sums& sums : layers_) {
    if (sums.tokens == 0 || sums.queries == 0) {
      return Error{ErrorCode::kBadArgument, 0, "codec profile",
                   "layer " + std::to_string(profile.layers.size()) + ": nothing was seen of it"};
    }
    const auto tokens = static_cast<double>(sums.tokens);
    LayerProfile& layer = profile.layers.emplace_back();
    for (std::uint32_t c = 0; c < width_; ++c) {
      layer.k_mean.push_back(static_cast<float>(sums.k[c] / tokens));
      layer.k_sigma.push_back(static_cast<float>(spread(sums.k[c], sums.k2[c], tokens)));
      layer.query_energy.push_back(
          static_cast<float>(sums.q2[c] / static_cast<double>(sums.queries)));
      layer.v_mean.push_back(static_cast<float>(sums.v[c] / tokens));
      layer.v_sigma.push_back(static_cast<float>(spread(sums.v[c], sums.v2[c], tokens)));
    }
  }
  return deserialise(serialise(profile), "(fresh)");
}

}  // namespace mzcache::codec
