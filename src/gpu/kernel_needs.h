// What a model asks of the kernels: a program is compiled for no more than that.
#pragma once

#include <cstdint>
#include <string>

#include "actors/model_description.h"
#include "gpu/device_info.h"

namespace mzcache::gpu {

// Sets of tensor types: bit i for the type with id i.
using TypeSet = std::uint32_t;
[[nodiscard]] constexpr TypeSet type_bit(actors::TensorType type) noexcept {
  return TypeSet{1} << static_cast<std::uint32_t>(type);
}
inline constexpr TypeSet kAllTypes = 0xFFFFFFFFU;

struct KernelNeeds {
  TypeSet products = kAllTypes;    // of matrices
  TypeSet embeddings = kAllTypes;  // of the input embedding
  bool int8 = false;               // quantised weights meet activations of 8 bits, where possible

  // Whether kernels made for this serve `other` too.
  [[nodiscard]] bool cover(const KernelNeeds& other) const noexcept {
    return (other.products & ~products) == 0 && (other.embeddings & ~embeddings) == 0 &&
           int8 == other.int8;
  }
  // Types whose products are of bytes on this device, with the kernels it gets.
  [[nodiscard]] TypeSet byte_types(const DeviceInfo& device) const noexcept;
  // Those of them and others whose products with one token are.
  [[nodiscard]] TypeSet row_byte_types(const DeviceInfo& device) const noexcept;
};

[[nodiscard]] KernelNeeds needs_of(const actors::ModelDescription& model, bool int8);
// The options that say so to the device's compiler.
[[nodiscard]] std::string needs_options(const KernelNeeds& needs, const DeviceInfo& device);

}  // namespace mzcache::gpu
