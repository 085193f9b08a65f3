#include "engine/describe_model_family.h"

#include <array>

namespace mzcache::engine {
namespace {

using actors::LayerTensor;

constexpr LayerTensorSpec vector_of(LayerTensor tensor, const char* name, TensorSize size) {
  return {tensor, name, TensorSize::kOne, size};
}
constexpr LayerTensorSpec optional_vector(LayerTensor tensor, const char* name, TensorSize size) {
  return {tensor, name, TensorSize::kOne, size, true};
}

// The pieces layers are made of.
constexpr auto kAttnNorm =
    vector_of(LayerTensor::kAttnNorm, "attn_norm.weight", TensorSize::kHidden);
constexpr LayerTensorSpec kAttnQ{LayerTensor::kAttnQ, "attn_q.weight", TensorSize::kAllHeads,
                                 TensorSize::kHidden};
constexpr LayerTensorSpec kAttnK{LayerTensor::kAttnK, "attn_k.weight", TensorSize::kAllKvHeads,
                                 TensorSize::kHidden};
constexpr LayerTensorSpec kAttnV{LayerTensor::kAttnV, "attn_v.weight", TensorSize::kAllKvHeads,
                                 TensorSize::kHidden};
constexpr auto kAttnQBias =
    vector_of(LayerTensor::kAttnQBias, "attn_q.bias", TensorSize::kAllHeads);
constexpr auto kAttnKBias =
    vector_of(LayerTensor::kAttnKBias, "attn_k.bias", TensorSize::kAllKvHeads);
constexpr auto kAttnVBias =
    vector_of(LayerTensor::kAttnVBias, "attn_v.bias", TensorSize::kAllKvHeads);
constexpr auto kAttnQNorm =
    vector_of(LayerTensor::kAttnQNorm, "attn_q_norm.weight", TensorSize::kHead);
constexpr auto kAttnKNorm =
    vector_of(LayerTensor::kAttnKNorm, "attn_k_norm.weight", TensorSize::kHead);
constexpr LayerTensorSpec kAttnOutput{LayerTensor::kAttnOutput, "attn_output.weight",
                                      TensorSize::kHidden, TensorSize::kAllHeads};
constexpr auto kPostAttentionNorm =
    vector_of(LayerTensor::kPostAttentionNorm, "post_attention_norm.weight", TensorSize::kHidden);
constexpr auto kFfnNorm = vector_of(LayerTensor::kFfnNorm, "ffn_norm.weight", TensorSize::kHidden);
constexpr LayerTensorSpec kFfnGate{LayerTensor::kFfnGate, "ffn_gate.weight",
                                   TensorSize::kFeedForward, TensorSize::kHidden};
constexpr LayerTensorSpec kFfnUp{LayerTensor::kFfnUp, "ffn_up.weight", TensorSize::kFeedForward,
                                 TensorSize::kHidden};
constexpr LayerTensorSpec kFfnDown{LayerTensor::kFfnDown, "ffn_down.weight", TensorSize::kHidden,
                                   TensorSize::kFeedForward};
constexpr auto kPostFfwNorm =
    vector_of(LayerTensor::kPostFfwNorm, "post_ffw_norm.weight", TensorSize::kHidden);

constexpr std::array kLlamaTensors = {
    kAttnNorm,
    kAttnQ,
    kAttnK,
    kAttnV,
    optional_vector(LayerTensor::kAttnQBias, "attn_q.bias", TensorSize::kAllHeads),
    optional_vector(LayerTensor::kAttnKBias, "attn_k.bias", TensorSize::kAllKvHeads),
    optional_vector(LayerTensor::kAttnVBias, "attn_v.bias", TensorSize::kAllKvHeads),
    kAttnOutput,
    kFfnNorm,
    kFfnGate,
    kFfnUp,
    kFfnDown};
constexpr std::array kQwen2Tensors = {kAttnNorm,  kAttnQ,     kAttnK,     kAttnV,
                                      kAttnQBias, kAttnKBias, kAttnVBias, kAttnOutput,
                                      kFfnNorm,   kFfnGate,   kFfnUp,     kFfnDown};
constexpr std::array kQwen3Tensors = {kAttnNorm,  kAttnQ,     kAttnK,      kAttnV,
                                      kAttnQNorm, kAttnKNorm, kAttnOutput, kFfnNorm,
                                      kFfnGate,   kFfnUp,     kFfnDown};
constexpr std::array kExaone4Tensors = {
    kAttnQ,   kAttnK, kAttnV,   kAttnQNorm,  kAttnKNorm, kAttnOutput, kPostAttentionNorm,
    kFfnGate, kFfnUp, kFfnDown, kPostFfwNorm};
constexpr std::array kGemma2Tensors = {kAttnNorm,          kAttnQ,   kAttnK,   kAttnV, kAttnOutput,
                                       kPostAttentionNorm, kFfnNorm, kFfnGate, kFfnUp, kFfnDown,
                                       kPostFfwNorm};
constexpr std::array kGemma3Tensors = {
    kAttnNorm,          kAttnQ,   kAttnK,   kAttnV, kAttnQNorm, kAttnKNorm,  kAttnOutput,
    kPostAttentionNorm, kFfnNorm, kFfnGate, kFfnUp, kFfnDown,   kPostFfwNorm};

using Pairing = actors::RopeDescription::Pairing;

constexpr std::array kFamilies = {
    ModelFamily{.architecture = "llama",
                .pairing = Pairing::kInterleaved,
                .layer_tensors = kLlamaTensors,
                .windows = {.supported = true},
                .rope_factors = true},
    ModelFamily{
        .architecture = "qwen2", .pairing = Pairing::kSplitHalves, .layer_tensors = kQwen2Tensors},
    ModelFamily{
        .architecture = "qwen3", .pairing = Pairing::kSplitHalves, .layer_tensors = kQwen3Tensors},
    ModelFamily{.architecture = "smollm3",
                .pairing = Pairing::kInterleaved,
                .layer_tensors = kLlamaTensors,
                .no_rope_step = 4},
    // Only the model of 64 layers mixes, whether or not its file says so.
    ModelFamily{.architecture = "exaone4",
                .pairing = Pairing::kSplitHalves,
                .layer_tensors = kExaone4Tensors,
                .windows = {.supported = true,
                            .window = 4096,
                            .window_layers = 64,
                            .pattern = 4,
                            .rope_in_windows_only = true},
                .rope_factors = true},
    ModelFamily{.architecture = "gemma2",
                .pairing = Pairing::kSplitHalves,
                .layer_tensors = kGemma2Tensors,
                .windows = {.supported = true, .window = 4096, .pattern = 2},
                .activation = actors::Activation::kGelu,
                .scaled_embedding = true,
                .always_tied = true,
                .hidden_scale_layers = 46,
                .attention_softcap = 50.0F,
                .logit_softcap = 30.0F},
    ModelFamily{.architecture = "gemma3",
                .pairing = Pairing::kSplitHalves,
                .layer_tensors = kGemma3Tensors,
                .windows = {.supported = true, .pattern = 6, .rope_base = 10000.0F},
                .activation = actors::Activation::kGelu,
                .scaled_embedding = true,
                .hidden_scale_layers = 62,
                .logit_softcap = 0.0F},
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
