#include "gpu/reference_model.h"

#include <cmath>
#include <cstring>

namespace mzcache::test {
namespace {

using actors::LayerTensor;
using actors::ModelDescription;
using actors::TensorType;
using actors::TensorView;

constexpr std::uint32_t kLayers = 3;
constexpr std::uint32_t kHidden = 64;
constexpr std::uint32_t kFeedForward = 96;
constexpr std::uint32_t kVocabulary = 80;

struct Units {
  std::vector<std::vector<std::byte>> weights;  // layers, then the head
  std::vector<std::byte> embedding;
};

class UnitWriter {
 public:
  UnitWriter(std::vector<std::byte>& bytes, Random& random) : bytes_(bytes), random_(random) {}
  TensorView matrix(TensorType type, std::uint32_t rows, std::uint32_t columns) {
    return append(type, rows, columns, random_blocks(type, rows, columns, random_));
  }
  TensorView vector(std::uint32_t columns, float around) {
    auto values = random_floats(columns, 0.3F, random_);
    for (float& value : values) value += around;
    const auto bytes = std::as_bytes(std::span(values));
    return append(TensorType::kF32, 1, columns, {bytes.begin(), bytes.end()});
  }
  std::uint64_t finish() {
    bytes_.resize(actors::align_up(bytes_.size(), actors::kBlockAlignment));
    return bytes_.size();
  }

 private:
  TensorView append(TensorType type, std::uint32_t rows, std::uint32_t columns,
                    const std::vector<std::byte>& data) {
    bytes_.resize(actors::align_up(bytes_.size(), 32));
    const TensorView view{type, bytes_.size(), rows, columns, row_bytes(type, columns)};
    bytes_.insert(bytes_.end(), data.begin(), data.end());
    return view;
  }
  std::vector<std::byte>& bytes_;
  Random& random_;
};

void make_layer(const ModelOptions& options, actors::LayerDescription& layer,
                std::vector<std::byte>& bytes, Random& random) {
  UnitWriter writer(bytes, random);
  const auto put = [&](LayerTensor tensor, const TensorView& view) {
    layer.tensors[static_cast<std::size_t>(tensor)] = view;
  };
  const std::uint32_t query = options.heads * options.head_dim;
  const std::uint32_t kv = options.kv_heads * options.head_dim;
  if (options.norms_before) {
    put(LayerTensor::kAttnNorm, writer.vector(kHidden, 1));
    put(LayerTensor::kFfnNorm, writer.vector(kHidden, 1));
  }
  if (options.norms_behind) {
    put(LayerTensor::kPostAttentionNorm, writer.vector(kHidden, 1));
    put(LayerTensor::kPostFfwNorm, writer.vector(kHidden, 1));
  }
  if (options.head_norms) {
    put(LayerTensor::kAttnQNorm, writer.vector(options.head_dim, 1));
    put(LayerTensor::kAttnKNorm, writer.vector(options.head_dim, 1));
  }
  if (options.biases) {
    put(LayerTensor::kAttnQBias, writer.vector(query, 0));
    put(LayerTensor::kAttnKBias, writer.vector(kv, 0));
    put(LayerTensor::kAttnVBias, writer.vector(kv, 0));
  }
  put(LayerTensor::kAttnQ, writer.matrix(options.type, query, kHidden));
  put(LayerTensor::kAttnK, writer.matrix(options.type, kv, kHidden));
  put(LayerTensor::kAttnV, writer.matrix(options.type, kv, kHidden));
  put(LayerTensor::kAttnOutput, writer.matrix(options.type, kHidden, query));
  put(LayerTensor::kFfnGate, writer.matrix(options.type, kFeedForward, kHidden));
  put(LayerTensor::kFfnUp, writer.matrix(options.type, kFeedForward, kHidden));
  put(LayerTensor::kFfnDown, writer.matrix(options.type, kHidden, kFeedForward));
  layer.unit_bytes = writer.finish();
}

// The forward pass over one model, token after token.
class ReferenceForward {
 public:
  explicit ReferenceForward(const ModelBytes& model) : model_(model), d_(model.description) {
    for (std::uint32_t i = 0; i <= d_.layers; ++i) {
      const bool head = i == d_.layers;
      units_.emplace_back(head ? d_.head.unit_bytes : d_.layer[i].unit_bytes);
      model.fill(head ? actors::head_unit(i) : actors::weights_unit(i), units_.back());
    }
    keys_.resize(std::size_t{d_.layers} * d_.kv_heads);
    values_.resize(keys_.size());
  }

  std::vector<double> token(std::uint32_t token, std::uint32_t position) {
    std::vector<double> x;
    for (const float value :
         dequantised_row(d_.embedding.type, model_.embedding_row(token), d_.hidden)) {
      x.push_back(double{value} * double{d_.embedding.scale});
    }
    for (layer_ = 0; layer_ < d_.layers; ++layer_) {
      const auto attended = attention(norm(LayerTensor::kAttnNorm, x), position);
      add(x, norm(LayerTensor::kPostAttentionNorm, product(LayerTensor::kAttnOutput, attended)));
      add(x, norm(LayerTensor::kPostFfwNorm, feed_forward(norm(LayerTensor::kFfnNorm, x))));
    }
    x = reference_norm(x, row(d_.layers, d_.head.norm), double{d_.norm_epsilon});
    auto logits = product(d_.layers, d_.head.output, x);
    if (d_.logit_softcap > 0) {
      const double cap = double{d_.logit_softcap};
      for (double& value : logits) value = std::tanh(value / cap) * cap;
    }
    return logits;
  }

 private:
  [[nodiscard]] std::vector<float> row(std::uint32_t unit, const TensorView& view,
                                       std::uint32_t index = 0) const {
    return dequantised_row(
        view.type, units_[unit].data() + view.unit_offset + index * view.row_bytes, view.columns);
  }
  [[nodiscard]] std::vector<double> product(std::uint32_t unit, const TensorView& view,
                                            const std::vector<double>& x) const {
    std::vector<double> y;
    for (std::uint32_t r = 0; r < view.rows; ++r) {
      y.push_back(reference_matmul(row(unit, view, r), x, 1)[0]);
    }
    return y;
  }
  [[nodiscard]] const TensorView& view(LayerTensor tensor) const {
    return d_.layer[layer_][tensor];
  }
  [[nodiscard]] std::vector<double> product(LayerTensor tensor,
                                            const std::vector<double>& x) const {
    return product(layer_, view(tensor), x);
  }
  [[nodiscard]] std::vector<double> norm(LayerTensor tensor, std::vector<double> x) const {
    if (!view(tensor).present()) return x;
    return reference_norm(x, row(layer_, view(tensor)), double{d_.norm_epsilon});
  }
  static void add(std::vector<double>& x, const std::vector<double>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  // Product, bias, norm and rotation of one head after the other.
  [[nodiscard]] std::vector<std::vector<double>> heads(LayerTensor weight, LayerTensor bias,
                                                       LayerTensor head_norm, bool rotate,
                                                       const std::vector<double>& x,
                                                       std::uint32_t position) const {
    auto all = product(weight, x);
    if (view(bias).present()) {
      const auto values = row(layer_, view(bias));
      for (std::size_t i = 0; i < all.size(); ++i) all[i] += double{values[i]};
    }
    std::vector<std::vector<double>> out;
    for (std::size_t at = 0; at < all.size(); at += d_.head_dim) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
      std::vector<double> head(begin, begin + d_.head_dim);
      if (head_norm != LayerTensor::kCount) head = norm(head_norm, head);
      if (rotate) head = reference_rope(d_.rope_of(d_.layer[layer_]), head, position);
      out.push_back(head);
    }
    return out;
  }

  [[nodiscard]] std::vector<double> attention(const std::vector<double>& x,
                                              std::uint32_t position) {
    const auto stored = [](std::vector<double> head) {
      for (double& value : head) {
        value = double{half_to_float(float_to_half(static_cast<float>(value)))};
      }
      return head;
    };
    const auto query = heads(LayerTensor::kAttnQ, LayerTensor::kAttnQBias, LayerTensor::kAttnQNorm,
                             true, x, position);
    const auto key = heads(LayerTensor::kAttnK, LayerTensor::kAttnKBias, LayerTensor::kAttnKNorm,
                           true, x, position);
    const auto value = heads(LayerTensor::kAttnV, LayerTensor::kAttnVBias, LayerTensor::kCount,
                             false, x, position);
    const ReferenceAttention how{double{d_.attention_scale}, double{d_.attention_softcap},
                                 d_.layer[layer_].window};
    for (std::uint32_t h = 0; h < d_.kv_heads; ++h) {
      keys_[layer_ * d_.kv_heads + h].push_back(stored(key[h]));
      values_[layer_ * d_.kv_heads + h].push_back(stored(value[h]));
    }
    std::vector<double> out;
    for (std::uint32_t h = 0; h < d_.heads; ++h) {
      const std::size_t kv = layer_ * d_.kv_heads + h / (d_.heads / d_.kv_heads);
      const auto one = reference_attention(how, query[h], keys_[kv], values_[kv], position);
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }

  [[nodiscard]] std::vector<double> feed_forward(const std::vector<double>& x) const {
    auto gate = product(LayerTensor::kFfnGate, x);
    const auto up = product(LayerTensor::kFfnUp, x);
    for (std::size_t i = 0; i < gate.size(); ++i) {
      gate[i] = (d_.activation == actors::Activation::kGelu ? reference_gelu(gate[i])
                                                            : reference_silu(gate[i])) *
                up[i];
    }
    return product(LayerTensor::kFfnDown, gate);
  }

  const ModelBytes& model_;
  const ModelDescription& d_;
  std::vector<std::vector<std::byte>> units_;
  std::uint32_t layer_ = 0;
  // [layer · kv_heads + kv_head][token][dim]
  std::vector<std::vector<std::vector<double>>> keys_;
  std::vector<std::vector<std::vector<double>>> values_;
};

}  // namespace

ModelBytes make_random_model(const ModelOptions& options, std::uint64_t seed) {
  Random random(seed);
  auto units = std::make_shared<Units>();
  units->weights.resize(kLayers + 1);
  ModelBytes model;
  ModelDescription& d = model.description;
  d.architecture = "random";
  if (options.gelu) d.activation = actors::Activation::kGelu;
  d.layers = kLayers;
  d.hidden = kHidden;
  d.feed_forward = kFeedForward;
  d.heads = options.heads;
  d.kv_heads = options.kv_heads;
  d.head_dim = options.head_dim;
  d.vocabulary = kVocabulary;
  d.context_length = 2048;
  d.attention_scale = 1.0F / std::sqrt(static_cast<float>(options.head_dim));
  d.attention_softcap = options.attention_softcap;
  d.logit_softcap = options.logit_softcap;
  d.rope.dimensions = options.head_dim;
  d.rope.pairing = options.split_halves ? actors::RopeDescription::Pairing::kSplitHalves
                                        : actors::RopeDescription::Pairing::kInterleaved;
  if (options.windowed_rope_base > 0) {
    d.windowed_rope = d.rope;
    d.windowed_rope->base = options.windowed_rope_base;
    d.windowed_rope->magnitude = 1.1F;
  }
  d.layer.resize(kLayers);
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    make_layer(options, d.layer[i], units->weights[i], random);
    d.layer[i].window = i % 2 == 0 ? options.window : 0;
    d.layer[i].rope = options.rope_every_layer || i % 2 == 0;
  }
  UnitWriter head(units->weights.back(), random);
  d.head.norm = head.vector(kHidden, 1);
  d.head.output = head.matrix(options.type, kVocabulary, kHidden);
  d.head.unit_bytes = head.finish();
  units->embedding = random_blocks(options.type, kVocabulary, kHidden, random);
  d.embedding.type = options.type;
  d.embedding.rows = kVocabulary;
  d.embedding.row_bytes = row_bytes(options.type, kHidden);
  d.embedding.scale = options.embedding_scale;

  model.keep = units;
  model.embedding_row = [units, bytes = d.embedding.row_bytes](std::uint32_t token) {
    return units->embedding.data() + token * bytes;
  };
  model.fill = [units](actors::UnitId unit, std::span<std::byte> to) {
    const auto& from = units->weights[unit.layer];
    std::memcpy(to.data(), from.data(), from.size());
  };
  return model;
}

std::vector<std::vector<double>> reference_logits(const ModelBytes& model,
                                                  std::span<const std::uint32_t> tokens) {
  ReferenceForward forward(model);
  std::vector<std::vector<double>> out;
  for (std::uint32_t i = 0; i < tokens.size(); ++i) out.push_back(forward.token(tokens[i], i));
  return out;
}

}  // namespace mzcache::test
