#include "gpu/layer_recipe.h"

namespace mzcache::gpu {
namespace {

using actors::LayerDescription;
using actors::LayerTensor;
using actors::ModelDescription;

class RecipeBuilder {
 public:
  explicit RecipeBuilder(const LayerDescription& layer) : layer_(layer) {}

  [[nodiscard]] LayerRecipe build() && {
    const Slot attention_in = norm_before(recipe_.project, LayerTensor::kAttnNorm);
    project(LayerTensor::kAttnQ, LayerTensor::kAttnQBias, attention_in, Slot::kQuery);
    project(LayerTensor::kAttnK, LayerTensor::kAttnKBias, attention_in, Slot::kKey);
    project(LayerTensor::kAttnV, LayerTensor::kAttnVBias, attention_in, Slot::kValue);
    head_norm(LayerTensor::kAttnQNorm, Slot::kQuery);
    head_norm(LayerTensor::kAttnKNorm, Slot::kKey);

    auto& attend = recipe_.attend;
    attend.push_back({.kind = OperationKind::kRopeStore, .in = Slot::kKey, .out = Slot::kQuery});
    attend.push_back(
        {.kind = OperationKind::kAttention, .in = Slot::kQuery, .out = Slot::kAttended});
    finish_block(LayerTensor::kAttnOutput, Slot::kAttended, LayerTensor::kPostAttentionNorm);
    const Slot ffn_in = norm_before(attend, LayerTensor::kFfnNorm);
    attend.push_back({.kind = OperationKind::kMatmul,
                      .tensor = LayerTensor::kFfnGate,
                      .in = ffn_in,
                      .out = Slot::kGate});
    attend.push_back({.kind = OperationKind::kMatmul,
                      .tensor = LayerTensor::kFfnUp,
                      .in = ffn_in,
                      .out = Slot::kUp});
    attend.push_back({.kind = OperationKind::kGate, .in = Slot::kUp, .out = Slot::kGate});
    finish_block(LayerTensor::kFfnDown, Slot::kGate, LayerTensor::kPostFfwNorm);
    return std::move(recipe_);
  }

 private:
  // Families without a norm in front of a block read the residual stream itself.
  Slot norm_before(std::vector<Operation>& to, LayerTensor tensor) const {
    if (!layer_[tensor].present()) return Slot::kHidden;
    to.push_back({.kind = OperationKind::kNorm,
                  .tensor = tensor,
                  .in = Slot::kHidden,
                  .out = Slot::kNormed});
    return Slot::kNormed;
  }
  void project(LayerTensor tensor, LayerTensor bias, Slot in, Slot out) {
    recipe_.project.push_back({.kind = OperationKind::kMatmul,
                               .tensor = tensor,
                               .bias = layer_[bias].present() ? bias : LayerTensor::kCount,
                               .in = in,
                               .out = out});
  }
  void head_norm(LayerTensor tensor, Slot slot) {
    if (!layer_[tensor].present()) return;
    recipe_.project.push_back(
        {.kind = OperationKind::kHeadNorm, .tensor = tensor, .in = slot, .out = slot});
  }
  // The block's last product goes to the residual stream, through a norm where there is one.
  void finish_block(LayerTensor tensor, Slot in, LayerTensor norm) {
    const bool normed = layer_[norm].present();
    recipe_.attend.push_back({.kind = OperationKind::kMatmul,
                              .tensor = tensor,
                              .in = in,
                              .out = normed ? Slot::kNormed : Slot::kHidden,
                              .add = !normed});
    if (normed) {
      recipe_.attend.push_back({.kind = OperationKind::kNorm,
                                .tensor = norm,
                                .in = Slot::kNormed,
                                .out = Slot::kHidden,
                                .add = true});
    }
  }

  const LayerDescription& layer_;
  LayerRecipe recipe_;
};

}  // namespace

LayerRecipe make_layer_recipe(const LayerDescription& layer) {
  return RecipeBuilder(layer).build();
}

GateKind gate_kind(const ModelDescription& model) noexcept {
  return model.activation == actors::Activation::kGelu ? GateKind::kGelu : GateKind::kSilu;
}

std::uint32_t slot_width(const ModelDescription& model, Slot slot) noexcept {
  switch (slot) {
    case Slot::kHidden:
    case Slot::kNormed:
      return model.hidden;
    case Slot::kQuery:
    case Slot::kAttended:
      return model.heads * model.head_dim;
    case Slot::kKey:
    case Slot::kValue:
      return model.kv_heads * model.head_dim;
    case Slot::kGate:
    case Slot::kUp:
      return model.feed_forward;
    case Slot::kCount:
      break;
  }
  return 0;
}

}  // namespace mzcache::gpu
