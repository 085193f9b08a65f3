#include "actors/model_description.h"

#include <algorithm>

namespace mzcache::actors {

TensorTypeTraits tensor_type_traits(TensorType type) noexcept {
  switch (type) {
    case TensorType::kF32:
      return {"f32", 1, 4};
    case TensorType::kF16:
      return {"f16", 1, 2};
    case TensorType::kQ4_0:
      return {"q4_0", 32, 18};
    case TensorType::kQ4_1:
      return {"q4_1", 32, 20};
    case TensorType::kQ5_0:
      return {"q5_0", 32, 22};
    case TensorType::kQ5_1:
      return {"q5_1", 32, 24};
    case TensorType::kQ8_0:
      return {"q8_0", 32, 34};
    case TensorType::kQ4_K:
      return {"q4_k", 256, 144};
    case TensorType::kQ5_K:
      return {"q5_k", 256, 176};
    case TensorType::kQ6_K:
      return {"q6_k", 256, 210};
    case TensorType::kBF16:
      return {"bf16", 1, 2};
  }
  return {};  // an id from a file need not be one of the enumerators
}

const RopeDescription& ModelDescription::rope_of(const LayerDescription& one) const noexcept {
  static const RopeDescription kNone;
  if (!one.rope) return kNone;
  return one.window != 0 && windowed_rope ? *windowed_rope : rope;
}

bool ModelDescription::has_windows() const noexcept {
  return std::any_of(layer.begin(), layer.end(),
                     [](const LayerDescription& one) { return one.window != 0; });
}

std::uint64_t ModelDescription::weights_bytes() const noexcept {
  std::uint64_t sum = head.unit_bytes;
  for (const LayerDescription& one : layer) sum += one.unit_bytes;
  return sum;
}

}  // namespace mzcache::actors
