// Pieces of the device's own memory that hold one or more units. Internal to the room.
#pragma once

#include <memory>

#include "gpu/unit_memory.h"
#include "gpu/unit_memory_pages.h"

namespace mzcache::gpu {

// One allocation the device knows. open/close on different ranges may come from several threads.
class DeviceSlab {
 public:
  virtual ~DeviceSlab() = default;
  DeviceSlab() = default;
  DeviceSlab(const DeviceSlab&) = delete;
  DeviceSlab& operator=(const DeviceSlab&) = delete;

  // Where the host sees the slab; the same address as long as the slab lives.
  [[nodiscard]] virtual std::byte* host() const noexcept = 0;
  // Whether a new slab reads as zero.
  [[nodiscard]] virtual bool zeroed() const noexcept = 0;
  // From open to close the host may touch the range, after close the device may.
  [[nodiscard]] virtual Result<void> open(std::uint64_t offset, std::uint64_t bytes) = 0;
  virtual void close(std::uint64_t offset) noexcept = 0;
  [[nodiscard]] virtual KernelAddress address(std::uint64_t offset) const noexcept = 0;
};

// Shared virtual memory. `transfers` is a queue that nothing else waits on.
[[nodiscard]] Result<std::unique_ptr<DeviceSlab>> create_svm_slab(const Device& device,
                                                                  const cl::CommandQueue& transfers,
                                                                  std::uint64_t bytes);
// A plain buffer over `range`, pages of our own: they are aligned for direct I/O, which memory from
// the driver need not be, and are back with the system when the slab is destroyed.
[[nodiscard]] Result<std::unique_ptr<DeviceSlab>> create_buffer_slab(
    const Device& device, const cl::CommandQueue& transfers, std::span<std::byte> range, bool huge,
    const PopulateFault& fault);

}  // namespace mzcache::gpu
