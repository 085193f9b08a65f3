// What differs between architectures, as data: which tensors a layer has and of what shape, how
// heads are rotated, which metadata is understood. A new family is a new entry in the table.
#pragma once

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
};

struct ModelFamily {
  std::string_view architecture;
  actors::RopeDescription::Pairing pairing;
  std::span<const LayerTensorSpec> layer_tensors;  // all of them required
  // Keys (after "<architecture>.") that change the computation in a way the kernels do not know:
  // refused unless absent, zero or false.
  std::span<const std::string_view> refused_keys;
};

// nullptr where the architecture is not supported.
[[nodiscard]] const ModelFamily* find_family(std::string_view architecture) noexcept;
// "llama …"
[[nodiscard]] std::string supported_architectures();

[[nodiscard]] std::uint32_t tensor_size(TensorSize size, const ModelDescription& model) noexcept;

}  // namespace mzcache::engine
