// Units in memory that host and device share: the SharedMemory port for OpenCL.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/ports.h"
#include "gpu/device.h"

namespace mzcache::gpu {

// Sizes of everything the model's units need, known from its metadata.
struct UnitSizes {
  std::vector<std::uint64_t> weights_bytes;  // per layer, whole blocks of kBlockAlignment
  std::uint64_t head_bytes = 0;
  std::uint64_t chunk_bytes = 0;             // one KV chunk of one layer, K and V
};

// What a kernel argument takes: an SVM/host pointer, or a buffer with an offset.
struct KernelAddress {
  const void* pointer = nullptr;  // kHostMapping, kFineSvm, kCoarseSvm
  cl_mem buffer = nullptr;        // kBuffers
  std::uint64_t offset = 0;       // bytes; 0 with pointers
};

class UnitMemory : public actors::SharedMemory {
 public:
  struct Options {
    bool huge_pages = true;
  };
  [[nodiscard]] static Result<std::unique_ptr<UnitMemory>> create(Device& device,
                                                                  const UnitSizes& sizes,
                                                                  const Options& options);
  // Where kernels find a unit. The unit must be populated.
  [[nodiscard]] virtual KernelAddress address(actors::UnitId unit) const noexcept = 0;
  // Every range a kernel may reach through a pointer table (SVM devices need them declared).
  [[nodiscard]] virtual std::vector<const void*> reachable_pointers() const = 0;
};

}  // namespace mzcache::gpu
