#include "gpu/kernel_needs.h"

#include <fmt/format.h>

namespace mzcache::gpu {
namespace {

using actors::TensorType;

constexpr TypeSet kQuantised = type_bit(TensorType::kQ4_0) | type_bit(TensorType::kQ4_1) |
                               type_bit(TensorType::kQ5_0) | type_bit(TensorType::kQ5_1) |
                               type_bit(TensorType::kQ8_0) | type_bit(TensorType::kQ4_K) |
                               type_bit(TensorType::kQ5_K) | type_bit(TensorType::kQ6_K);

}  // namespace

TypeSet KernelNeeds::byte_types(const DeviceInfo& device) const noexcept {
  if (!int8 || device.kernels != "cpu") return 0;
  // Pairs of products of 8 by 8 bits do not fit the 16 bits that processors without the newer
  // instruction add them in; that can be helped, but then floats are as fast.
  const TypeSet possible =
      device.dot_products ? kQuantised : kQuantised & ~type_bit(TensorType::kQ8_0);
  return products & possible;
}

TypeSet KernelNeeds::row_byte_types(const DeviceInfo& device) const noexcept {
  // With one token it is converting to floats that takes longest.
  return int8 && device.kernels == "cpu" ? products & kQuantised : 0;
}

KernelNeeds needs_of(const actors::ModelDescription& model, bool int8) {
  KernelNeeds needs{0, type_bit(model.embedding.type), int8};
  for (const auto& layer : model.layer) {
    for (const auto& tensor : layer.tensors) {
      if (tensor.rows > 1) needs.products |= type_bit(tensor.type);
    }
  }
  needs.products |= type_bit(model.head.output.type);
  return needs;
}

std::string needs_options(const KernelNeeds& needs, const DeviceInfo& device) {
  const TypeSet bytes = needs.byte_types(device);
  const TypeSet floats = needs.products & ~bytes;
  std::string options = fmt::format(" -DMZ_TYPES={:#x}u -DMZ_PRODUCT_TYPES={:#x}u",
                                    floats | needs.embeddings, floats);
  if (device.kernels == "cpu") {
    options += fmt::format(
        " -DMZ_CPU=1 -DMZ_WIDTH={} -DMZ_VNNI={} -DMZ_BYTE_TYPES={:#x}u -DMZ_ROW_BYTE_TYPES={:#x}u",
        device.float_width >= 16 ? 16 : 8, device.dot_products ? 1 : 0, bytes,
        needs.row_byte_types(device));
  }
  return options;
}

}  // namespace mzcache::gpu
