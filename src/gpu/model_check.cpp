// What the kernels can compute, checked once per model: afterwards no size can lead a kernel out of
// a unit's buffer.
#include <array>
#include <string>

#include "gpu/layer_recipe.h"

namespace mzcache::gpu {
namespace {

using actors::LayerDescription;
using actors::LayerTensor;
using actors::ModelDescription;
using actors::TensorType;
using actors::TensorView;

constexpr std::uint32_t kHeadDimMax = 256;  // private sums of kernels/attention.cl
constexpr std::uint32_t kColumnsMultiple = 32;

constexpr std::array<const char*, static_cast<std::size_t>(LayerTensor::kCount)> kTensorNames = {
    "attn_norm",           "attn_q",      "attn_k",      "attn_v",      "attn_q.bias",
    "attn_k.bias",         "attn_v.bias", "attn_q_norm", "attn_k_norm", "attn_output",
    "post_attention_norm", "ffn_norm",    "ffn_gate",    "ffn_up",      "ffn_down",
    "post_ffw_norm"};

Error bad(ErrorCode code, const ModelDescription& model, const std::string& context) {
  return Error{code, 0, "prepare " + (model.file.empty() ? model.architecture : model.file),
               context};
}

struct Shape {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  bool floats = false;  // norms and biases: F32 only
};

class ModelChecker {
 public:
  explicit ModelChecker(const ModelDescription& model) : model_(model) {}

  Result<void> tensor(const TensorView& view, const std::string& name, Shape shape,
                      std::uint64_t unit_bytes) const {
    if (!view.present()) return bad(ErrorCode::kBadFormat, model_, name + " is missing");
    if (view.rows != shape.rows || view.columns != shape.columns) {
      return bad(ErrorCode::kBadFormat, model_,
                 name + " is " + std::to_string(view.rows) + "×" + std::to_string(view.columns) +
                     ", the metadata says " + std::to_string(shape.rows) + "×" +
                     std::to_string(shape.columns));
    }
    const auto traits = actors::tensor_type_traits(view.type);
    if (traits.block_bytes == 0) {
      return bad(ErrorCode::kUnsupported, model_,
                 name + " has type " + std::to_string(static_cast<std::uint32_t>(view.type)));
    }
    if (shape.floats && view.type != TensorType::kF32) {
      return bad(ErrorCode::kUnsupported, model_,
                 name + " has type " + traits.name + "; norms and biases must be f32");
    }
    if (!shape.floats && (view.columns % kColumnsMultiple != 0)) {
      return bad(ErrorCode::kUnsupported, model_,
                 name + " has " + std::to_string(view.columns) +
                     " columns; supported are multiples of " + std::to_string(kColumnsMultiple));
    }
    const std::uint64_t row_bytes =
        std::uint64_t{view.columns} / traits.block_values * traits.block_bytes;
    if (view.columns % traits.block_values != 0 || view.row_bytes != row_bytes) {
      return bad(ErrorCode::kBadFormat, model_,
                 name + " has rows of " + std::to_string(view.row_bytes) + " bytes for " +
                     std::to_string(view.columns) + " values of " + traits.name);
    }
    if (view.unit_offset > unit_bytes || row_bytes * view.rows > unit_bytes - view.unit_offset) {
      return bad(ErrorCode::kBadFormat, model_,
                 name + " ends behind its unit of " + std::to_string(unit_bytes) + " bytes");
    }
    return {};
  }

  Result<void> layer(std::uint32_t index) const {
    const LayerDescription& description = model_.layer[index];
    const std::uint32_t query = model_.heads * model_.head_dim;
    const std::uint32_t kv = model_.kv_heads * model_.head_dim;
    const std::uint32_t hidden = model_.hidden;
    const std::uint32_t ffn = model_.feed_forward;
    const std::array<Shape, static_cast<std::size_t>(LayerTensor::kCount)> shapes = {
        {{1, hidden, true},
         {query, hidden},
         {kv, hidden},
         {kv, hidden},
         {1, query, true},
         {1, kv, true},
         {1, kv, true},
         {1, model_.head_dim, true},
         {1, model_.head_dim, true},
         {hidden, query},
         {1, hidden, true},
         {1, hidden, true},
         {ffn, hidden},
         {ffn, hidden},
         {hidden, ffn},
         {1, hidden, true}}};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const TensorView& view = description.tensors[i];
      // Vectors are optional, matrices are not.
      if (!view.present() && shapes[i].floats) continue;
      const std::string name = "blk." + std::to_string(index) + "." + kTensorNames[i];
      if (auto ok = tensor(view, name, shapes[i], description.unit_bytes); !ok) return ok;
    }
    return {};
  }

  Result<void> sizes() const {
    const auto unsupported = [&](const std::string& text) -> Result<void> {
      return bad(ErrorCode::kUnsupported, model_, text);
    };
    if (model_.layers == 0 || model_.layer.size() != model_.layers || model_.hidden == 0 ||
        model_.feed_forward == 0 || model_.vocabulary == 0) {
      return bad(ErrorCode::kBadFormat, model_, "a size in the metadata is zero");
    }
    if (model_.kv_heads == 0 || model_.heads % model_.kv_heads != 0) {
      return unsupported(std::to_string(model_.heads) + " heads over " +
                         std::to_string(model_.kv_heads) + " KV heads");
    }
    if (model_.head_dim == 0 || model_.head_dim > kHeadDimMax) {
      return unsupported("head size " + std::to_string(model_.head_dim) + "; supported are 1 … " +
                         std::to_string(kHeadDimMax));
    }
    if (auto ok = rope(model_.rope); !ok) return ok;
    return model_.windowed_rope ? rope(*model_.windowed_rope) : Result<void>();
  }

  Result<void> rope(const actors::RopeDescription& rope) const {
    if (rope.dimensions > model_.head_dim || rope.dimensions % 2 != 0) {
      return bad(ErrorCode::kUnsupported, model_,
                 "RoPE over " + std::to_string(rope.dimensions) + " of " +
                     std::to_string(model_.head_dim) + " dimensions");
    }
    if (!rope.factors.empty() && rope.factors.size() != rope.dimensions / 2) {
      return bad(ErrorCode::kBadFormat, model_,
                 "rope_freqs has " + std::to_string(rope.factors.size()) + " values, not " +
                     std::to_string(rope.dimensions / 2));
    }
    return {};
  }

  Result<void> embedding() const {
    const auto traits = actors::tensor_type_traits(model_.embedding.type);
    if (traits.block_bytes == 0) {
      return bad(ErrorCode::kUnsupported, model_,
                 "token_embd has type " +
                     std::to_string(static_cast<std::uint32_t>(model_.embedding.type)));
    }
    const std::uint64_t expected =
        std::uint64_t{model_.hidden} / traits.block_values * traits.block_bytes;
    if (model_.hidden % kColumnsMultiple == 0 && model_.hidden % traits.block_values == 0 &&
        model_.embedding.row_bytes == expected) {
      return {};
    }
    return bad(ErrorCode::kBadFormat, model_,
               "token_embd has rows of " + std::to_string(model_.embedding.row_bytes) +
                   " bytes for " + std::to_string(model_.hidden) + " values of " + traits.name);
  }

 private:
  const ModelDescription& model_;
};

}  // namespace

Result<void> check_model(const ModelDescription& model) {
  const ModelChecker checker(model);
  if (auto ok = checker.sizes(); !ok) return ok;
  if (auto ok = checker.embedding(); !ok) return ok;
  for (std::uint32_t i = 0; i < model.layers; ++i) {
    if (auto ok = checker.layer(i); !ok) return ok;
  }
  const auto& head = model.head;
  if (auto ok = checker.tensor(head.norm, "output_norm", {1, model.hidden, true}, head.unit_bytes);
      !ok) {
    return ok;
  }
  return checker.tensor(head.output, "output", {model.vocabulary, model.hidden}, head.unit_bytes);
}

}  // namespace mzcache::gpu
