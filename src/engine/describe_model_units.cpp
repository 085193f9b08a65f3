#include "engine/describe_model_units.h"

#include <algorithm>

namespace mzcache::engine {

using actors::align_up;
using actors::FileId;
using actors::FileRange;
using actors::kBlockAlignment;

UnitPlacement place_unit(const std::vector<const GgufTensor*>& tensors, std::uint64_t file_bytes) {
  UnitPlacement placement;
  std::vector<const GgufTensor*> order = tensors;
  std::sort(order.begin(), order.end(), [](const GgufTensor* a, const GgufTensor* b) {
    return a->file_offset < b->file_offset;
  });
  for (const GgufTensor* tensor : order) {
    placement.tensor_bytes += tensor->bytes;
    const std::uint64_t begin = tensor->file_offset / kBlockAlignment * kBlockAlignment;
    const std::uint64_t end = align_up(tensor->file_offset + tensor->bytes, kBlockAlignment);
    if (!placement.ranges.empty()) {
      FileRange& last = placement.ranges.back();
      if (begin <= last.file_offset + last.bytes) {
        last.bytes = std::max(last.bytes, end - last.file_offset);
        continue;
      }
    }
    placement.ranges.push_back({FileId::kModel, begin, 0, end - begin});
  }
  for (FileRange& range : placement.ranges) {
    range.buffer_offset = placement.unit_bytes;
    placement.unit_bytes += range.bytes;
    range.bytes = std::min(range.bytes, file_bytes - range.file_offset);
  }
  return placement;
}

std::uint64_t unit_offset(const UnitPlacement& placement, const GgufTensor& tensor) {
  const auto after = std::upper_bound(
      placement.ranges.begin(), placement.ranges.end(), tensor.file_offset,
      [](std::uint64_t offset, const FileRange& range) { return offset < range.file_offset; });
  const FileRange& range = *std::prev(after);
  return range.buffer_offset + (tensor.file_offset - range.file_offset);
}

}  // namespace mzcache::engine
