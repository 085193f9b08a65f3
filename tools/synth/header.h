// The header of a GGUF file, written field by field. Not thread-safe.
// Source: the format's specification (github.com/ggml-org/ggml, docs/gguf.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/model_description.h"

namespace mzcache::synth {

inline constexpr std::uint64_t kAlignment = 32;

struct PlannedTensor {
  std::string name;
  actors::TensorType type = actors::TensorType::kF32;
  std::uint64_t rows = 0;  // 0: a vector
  std::uint64_t columns = 0;
  double deviation = 0;  // vectors: around 1; factors: see synth.cpp
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    const auto traits = actors::tensor_type_traits(type);
    return (rows == 0 ? 1 : rows) * (columns / traits.block_values) * traits.block_bytes;
  }
};

class Header {
 public:
  void add(std::string_view key, std::uint32_t value);
  void add(std::string_view key, std::int32_t) = delete;
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, const std::vector<std::string>& values);
  void add(std::string_view key, const std::vector<std::int32_t>& values);

  // Everything before the data section, padded to the alignment. Tensors lie in the given order.
  [[nodiscard]] std::string bytes(const std::vector<PlannedTensor>& tensors) const;

 private:
  void begin(std::string_view key, std::uint32_t type);

  std::string keys_;
  std::uint64_t key_count_ = 0;
};

}  // namespace mzcache::synth
