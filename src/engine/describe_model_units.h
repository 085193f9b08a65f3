// Which file ranges fill a unit, and where its tensors lie in the unit's buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/model_description.h"
#include "engine/gguf.h"

namespace mzcache::engine {

struct UnitPlacement {
  std::vector<actors::FileRange> ranges;  // ascending; blocks of kBlockAlignment
  std::uint64_t unit_bytes = 0;           // size of the buffer, whole blocks
  std::uint64_t tensor_bytes = 0;
};

// Rounds each tensor's bytes out to whole blocks, merges what touches, and lays the ranges one
// after another. A range that reaches the end of the file ends with it.
[[nodiscard]] UnitPlacement place_unit(const std::vector<const GgufTensor*>& tensors,
                                       std::uint64_t file_bytes);
// Where `tensor`, one of those placed, lies in the unit's buffer.
[[nodiscard]] std::uint64_t unit_offset(const UnitPlacement& placement, const GgufTensor& tensor);

}  // namespace mzcache::engine
