#include "gpu/unit_memory_parts.h"
namespace mzcache::gpu {
Result<std::unique_ptr<UnitMemory>> create_svm_memory(Device& d, const UnitSizes&,
                                                      const UnitMemory::Options&) {
  return Error{ErrorCode::kNotYet, 0, "unit memory", memory_mode_name(d.info().mode)};
}
Result<std::unique_ptr<UnitMemory>> create_buffer_memory(Device& d, const UnitSizes&,
                                                         const UnitMemory::Options&) {
  return Error{ErrorCode::kNotYet, 0, "unit memory", memory_mode_name(d.info().mode)};
}
}  // namespace mzcache::gpu
