// Whether kernels reach plain anonymous mappings through a table of pointers. Not every CPU device
// advertises it that can do it, so it is tried rather than asked.
#pragma once

#include "gpu/device.h"
#include "gpu/program.h"

namespace mzcache::gpu {

[[nodiscard]] const std::vector<KernelSource>& host_pointer_probe_sources();
// Only for devices of OpenCL 2.0 on. Any failure counts as no.
[[nodiscard]] bool host_pointers_work(Device& device, const ProgramOptions& options);

}  // namespace mzcache::gpu
