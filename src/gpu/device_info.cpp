#include "gpu/device_info.h"

namespace mzcache::gpu {

const char* memory_mode_name(MemoryMode mode) noexcept {
  switch (mode) {
    case MemoryMode::kHostMapping:
      return "host-mapping";
    case MemoryMode::kFineSvm:
      return "fine-svm";
    case MemoryMode::kCoarseSvm:
      return "coarse-svm";
    case MemoryMode::kBuffers:
      return "buffers";
  }
  return "unknown";
}

}  // namespace mzcache::gpu
