// What the device can do at best, measured: the reference of every figure of speed.
#pragma once

#include <vector>

#include "gpu/device.h"
#include "gpu/program.h"

namespace mzcache::gpu {

struct Roofline {
  double operations_per_s = 0;  // multiplications and additions, fused, of floats in registers
  double read_bytes_per_s = 0;  // from memory, far more than caches hold
};

// Takes about half a second and 256 MiB.
[[nodiscard]] Result<Roofline> measure_roofline(Device& device, const ProgramOptions& options = {});

[[nodiscard]] const std::vector<KernelSource>& roofline_sources();

}  // namespace mzcache::gpu
