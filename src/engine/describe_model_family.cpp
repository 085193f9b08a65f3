#include "engine/describe_model_family.h"

#include <array>

namespace mzcache::engine {
namespace {

using actors::LayerTensor;

constexpr std::array kLlamaTensors = {
    LayerTensorSpec{LayerTensor::kAttnNorm, "attn_norm.weight", TensorSize::kOne,
                    TensorSize::kHidden},
    LayerTensorSpec{LayerTensor::kAttnQ, "attn_q.weight", TensorSize::kAllHeads,
                    TensorSize::kHidden},
    LayerTensorSpec{LayerTensor::kAttnK, "attn_k.weight", TensorSize::kAllKvHeads,
                    TensorSize::kHidden},
    LayerTensorSpec{LayerTensor::kAttnV, "attn_v.weight", TensorSize::kAllKvHeads,
                    TensorSize::kHidden},
    LayerTensorSpec{LayerTensor::kAttnOutput, "attn_output.weight", TensorSize::kHidden,
                    TensorSize::kAllHeads},
    LayerTensorSpec{LayerTensor::kFfnNorm, "ffn_norm.weight", TensorSize::kOne,
                    TensorSize::kHidden},
    LayerTensorSpec{LayerTensor::kFfnGate, "ffn_gate.weight", TensorSize::kFeedForward,
                    TensorSize::kHidden},
    LayerTensorSpec{LayerTensor::kFfnUp, "ffn_up.weight", TensorSize::kFeedForward,
                    TensorSize::kHidden},
    LayerTensorSpec{LayerTensor::kFfnDown, "ffn_down.weight", TensorSize::kHidden,
                    TensorSize::kFeedForward},
};

constexpr std::array<std::string_view, 7> kLlamaRefusedKeys = {
    "expert_count",           "attention.sliding_window", "attention.scale",
    "embedding_scale",        "residual_scale",           "logit_scale",
    "attn_logit_softcapping",
};

constexpr std::array kFamilies = {
    ModelFamily{"llama", actors::RopeDescription::Pairing::kInterleaved, kLlamaTensors,
                kLlamaRefusedKeys},
};

}  // namespace

const ModelFamily* find_family(std::string_view architecture) noexcept {
  for (const ModelFamily& family : kFamilies) {
    if (family.architecture == architecture) return &family;
  }
  return nullptr;
}

std::string supported_architectures() {
  std::string names;
  for (const ModelFamily& family : kFamilies) {
    if (!names.empty()) names += ' ';
    names += family.architecture;
  }
  return names;
}

std::uint32_t tensor_size(TensorSize size, const ModelDescription& model) noexcept {
  switch (size) {
    case TensorSize::kOne:
      return 1;
    case TensorSize::kHidden:
      return model.hidden;
    case TensorSize::kAllHeads:
      return model.heads * model.head_dim;
    case TensorSize::kAllKvHeads:
      return model.kv_heads * model.head_dim;
    case TensorSize::kHead:
      return model.head_dim;
    case TensorSize::kFeedForward:
      return model.feed_forward;
  }
  return 0;
}

}  // namespace mzcache::engine
