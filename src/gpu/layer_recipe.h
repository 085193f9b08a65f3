// A layer as a sequence of shared operations. Every family of models is described here and nowhere
// else: which norms, biases and activations a layer has decides the sequence; the compute queue and
// the kernels know operations only.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/model_description.h"
#include "mzcache/errors.h"

namespace mzcache::gpu {

// Activations between operations, one row per token. Widths follow from the model (slot_width).
enum class Slot : std::uint8_t {
  kHidden,  // the residual stream
  kNormed,  // input of a block, or its output on the way to a norm behind it
  kQuery,   // heads × head_dim
  kKey,     // kv_heads × head_dim
  kValue,
  kAttended,  // attention's output
  kGate,      // feed_forward
  kUp,
  kCount,
};

enum class OperationKind : std::uint8_t {
  kNorm,       // out (+)= RMSNorm(in)
  kHeadNorm,   // RMSNorm of every head, in place
  kMatmul,     // out (+)= W · in (+ bias)
  kRopeStore,  // rotate Q and K; K and V into the chunks
  kAttention,
  kGate,  // gate = activation(gate) · up
};

enum class GateKind : std::uint32_t { kSilu = 0, kGelu = 1 };  // as in kernels/activation.cl

struct Operation {
  OperationKind kind = OperationKind::kNorm;
  actors::LayerTensor tensor = actors::LayerTensor::kCount;  // weights, where it has any
  actors::LayerTensor bias = actors::LayerTensor::kCount;
  Slot in = Slot::kHidden;
  Slot out = Slot::kHidden;
  bool add = false;  // to what `out` holds
};

// The two stages of actors::LayerStage.
struct LayerRecipe {
  std::vector<Operation> project;
  std::vector<Operation> attend;
};

[[nodiscard]] LayerRecipe make_layer_recipe(const actors::LayerDescription& layer);
[[nodiscard]] GateKind gate_kind(const actors::ModelDescription& model) noexcept;
[[nodiscard]] std::uint32_t slot_width(const actors::ModelDescription& model, Slot slot) noexcept;
// Whether the kernels can compute the model: kUnsupported names tensor or field, value and limit;
// kBadFormat where a tensor's shape contradicts the metadata, so that no kernel leaves its unit.
[[nodiscard]] Result<void> check_model(const actors::ModelDescription& model);

}  // namespace mzcache::gpu
