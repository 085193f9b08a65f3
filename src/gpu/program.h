// The program: what a model needs of the kernels, built once per device and source, kept as a
// binary in the user's cache. Compiled in a short-lived child process (PoCL's compiler leaves 110
// MB behind), else in this one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/device.h"
#include "gpu/kernel_needs.h"

namespace mzcache::gpu {

// One kernel source file, embedded at build time (build/…/kernel_sources.cpp).
struct KernelSource {
  std::string_view name;  // "rms_norm.cl"
  std::string_view text;
};
[[nodiscard]] const std::vector<KernelSource>& kernel_sources();  // common.cl first

// A program with what it was made for.
struct Kernels {
  cl::Program program;
  KernelNeeds needs;
};

struct ProgramOptions {
  std::string cache_directory;  // empty: $XDG_CACHE_HOME/mzcache or ~/.cache/mzcache
  std::string compiler;  // path of the compile helper; empty: found beside this executable, or
                         // in libexec; "-": compile in this process
};

// kCompile names kernel, device and the head of the build log.
[[nodiscard]] Result<Kernels> load_kernels(Device& device, const KernelNeeds& needs,
                                           const ProgramOptions& options);
// What the helper process does: builds, warms every kernel up, writes the binary. Returns its path.
[[nodiscard]] Result<std::string> compile_kernels(Device& device, const KernelNeeds& needs,
                                                  const ProgramOptions& options);

}  // namespace mzcache::gpu
