// What `mzcache devices` shows and what the rest of the room decides by. No OpenCL here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mzcache/errors.h"

namespace mzcache::gpu {

// How kernels reach units.
enum class MemoryMode : std::uint8_t {
  kHostMapping,  // CPU device: our own anonymous mappings, pointers passed as SVM arguments
  kFineSvm,      // fine-grain SVM: clSVMAlloc slabs
  kCoarseSvm,    // coarse-grain SVM: slabs with map/unmap around host access
  kBuffers,      // no SVM: one buffer per layer for weights, one per layer for KV, plus offsets;
                 // eviction granularity is the layer
};
[[nodiscard]] const char* memory_mode_name(MemoryMode mode) noexcept;

struct DeviceInfo {
  std::string platform;
  std::string name;
  std::string version;  // CL_DEVICE_VERSION
  std::string driver;
  bool cpu = false;            // shares the host's cores
  bool shares_memory = false;  // host-unified
  std::string svm;             // "fine-grain system", "fine-grain buffer", "coarse-grain", "none"
  MemoryMode mode = MemoryMode::kBuffers;
  bool fp16 = false;
  bool subgroups = false;
  std::uint32_t compute_units = 0;
  std::uint32_t float_width = 1;  // CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT
  std::uint64_t allocation_bytes_max = 0;
  std::string kernels;        // "portable" | "cpu": the kernel set it gets
  bool dot_products = false;  // CPU set: integer dot products in one instruction (VNNI)
};

struct DeviceOptions {
  std::string name = {};              // substring, empty: best available
  std::string kernels = "auto";       // auto | portable | cpu
  std::string pin_workers = "auto";   // auto | true | false
  std::string force_memory = {};      // tests: a MemoryMode's name, empty: by capability
  std::uint32_t float_width_max = 0;  // tests: as on a processor with narrower vectors; 0: no
  // Where the capability test's program is kept and who compiles it, as in ProgramOptions.
  std::string cache_directory = {};
  std::string compiler = {};
};

// Every OpenCL device of the system; empty where there is none.
[[nodiscard]] std::vector<DeviceInfo> list_devices();

}  // namespace mzcache::gpu
