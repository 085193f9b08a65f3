// Units in memory that host and device share: the SharedMemory port for OpenCL.
#pragma once

#include <cstdint>
#include <functional>
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
  std::uint64_t chunk_bytes = 0;  // one KV chunk of one layer, K and V
};

// What a kernel argument takes: an SVM/host pointer, or a buffer with an offset.
struct KernelAddress {
  const void* pointer = nullptr;  // kHostMapping, kFineSvm, kCoarseSvm
  cl_mem buffer = nullptr;        // kBuffers
  std::uint64_t offset = 0;       // bytes; 0 with pointers
};

// Where the memory is the device's (every mode but kHostMapping), populate leaves a unit open to
// the host, end_host_access hands it to the device and begin_host_access takes it back; address()
// closes a view that is still open. A populated unit's bytes() never move. Memory returns to the
// system at the granularity of the mode: 4 KiB pages (kHostMapping), slabs of some chunks or of one
// layer's weights (SVM), buffers of a layer (kBuffers).
//
// Thread-safe for different units; one unit is used by one thread at a time.
class UnitMemory : public actors::SharedMemory {
 public:
  struct Options {
    bool huge_pages = true;
    // Tests: asked before each piece of memory is taken; a non-zero errno makes that piece fail.
    std::function<int(std::uint64_t bytes)> inject_failure = nullptr;
  };
  [[nodiscard]] static Result<std::unique_ptr<UnitMemory>> create(Device& device,
                                                                  const UnitSizes& sizes,
                                                                  const Options& options);
  // Where kernels find a unit. The unit must be populated.
  [[nodiscard]] virtual KernelAddress address(actors::UnitId unit) const noexcept = 0;
  // Every range a kernel may reach through a pointer table, for clSetKernelExecInfo(SVM_PTRS): SVM
  // devices need them declared. Empty where nothing has to be declared. Changes with populate and
  // release.
  [[nodiscard]] virtual std::vector<const void*> reachable_pointers() const = 0;
};

}  // namespace mzcache::gpu
