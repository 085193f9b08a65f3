// What differs between architectures, as data: which tensors a layer has and of what shape, how
// heads are rotated, which layers have a window, which metadata is understood and what it is where
// the file does not say. A new family is a new entry in the table.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "actors/model_description.h"
#include "engine/gguf.h"

namespace mzcache::engine {

// The sizes a tensor's rows and columns are made of.
enum class TensorSize : std::uint8_t { kOne, kHidden, kAllHeads, kAllKvHeads, kHead, kFeedForward };

struct LayerTensorSpec {
  actors::LayerTensor tensor;
  const char* name;  // "attn_q.weight", after "blk.N."
  TensorSize rows;   // kOne: a vector, F32
  TensorSize columns;
  bool optional = false;
};

// Sliding windows: which layers have one.
struct WindowRule {
  bool supported = false;
  // Where the file has no attention.sliding_window; 0: no layer has a window. With models of so
  // many layers only, where not 0.
  std::uint32_t window = 0;
  std::uint32_t window_layers = 0;
  // Every so many layers one sees everything, where the file has no sliding_window_pattern; 0: none
  // does.
  std::uint32_t pattern = 0;
  // Layers without a window go without RoPE, where others have one.
  bool rope_in_windows_only = false;
  // Layers with a window rotate by a base of their own and unscaled; 0: as all others.
  float rope_base = 0;
};

struct ModelFamily {
  std::string_view architecture;
  actors::RopeDescription::Pairing pairing;
  std::span<const LayerTensorSpec> layer_tensors;
  WindowRule windows{};
  actors::Activation activation = actors::Activation::kSilu;
  bool scaled_embedding = false;   // by √hidden
  bool rope_factors = false;       // may have rope_freqs.weight
  bool always_tied = false;        // has no output.weight
  std::uint32_t no_rope_step = 0;  // every so many layers one goes without RoPE
  // Attention is scaled by 1/√(hidden ÷ heads) in models of so many layers.
  std::uint32_t hidden_scale_layers = 0;
  // Where the file does not say; 0: none. Without a value the key is refused.
  std::optional<float> attention_softcap{};
  std::optional<float> logit_softcap{};
};

// nullptr where the architecture is not supported.
[[nodiscard]] const ModelFamily* find_family(std::string_view architecture) noexcept;
// "llama qwen2 …"
[[nodiscard]] std::string supported_architectures();

[[nodiscard]] std::uint32_t tensor_size(TensorSize size, const ModelDescription& model) noexcept;

}  // namespace mzcache::engine
