// Finding devices: internal to the room.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "gpu/device.h"

namespace mzcache::gpu {

struct FoundDevice {
  cl::Device device;
  DeviceInfo info;       // mode by capability, before any test
  unsigned version = 0;  // 120, 300
  bool gpu = false;
  bool svm_coarse = false;
  bool svm_fine = false;
  bool cpu_kernels = false;  // whether the CPU set runs here
};

// Every device of every platform, in the system's order.
[[nodiscard]] std::vector<FoundDevice> find_devices();
// The device that `name` (substring of name or platform, any case) selects, the best one if empty:
// a GPU with SVM before anything else, a CPU last. nullptr where none matches.
[[nodiscard]] const FoundDevice* choose_device(const std::vector<FoundDevice>& devices,
                                               std::string_view name);
[[nodiscard]] std::optional<MemoryMode> parse_memory_mode(std::string_view name) noexcept;

// Whether workers may be pinned to CPUs 0 … n-1: PoCL pins worker i to CPU i and aborts the process
// where that CPU is not allowed.
[[nodiscard]] bool may_use_first_cpus(const std::vector<unsigned>& allowed, unsigned configured);

// Does what pin_workers asks for before the first OpenCL call; returns a notice or nothing.
[[nodiscard]] Result<std::string> prepare_worker_affinity(std::string_view pin_workers);

// While it lives, the calling thread has the affinity of the process's first thread: the device's
// workers inherit the mask of the thread that opens it, which may be pinned.
class UnpinnedScope {
 public:
  UnpinnedScope();
  ~UnpinnedScope();
  UnpinnedScope(const UnpinnedScope&) = delete;
  UnpinnedScope& operator=(const UnpinnedScope&) = delete;

 private:
  std::vector<unsigned long> saved_;  // empty: nothing was changed
};

}  // namespace mzcache::gpu
