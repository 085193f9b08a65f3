// What no restore can be faster than: the longest of what storage, the device and all cores
// together must do.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mzcache::tools {

// Milliseconds, each stage run alone with memory in the same state.
struct RestoreWork {
  double raw_read_ms = 0;    // the very ranges into populated huge pages, nothing else running
  double in_memory_ms = 0;   // first token with everything resident, launched as in a restore
  double decode_cpu_ms = 0;  // CPU time; checksums included
  double allocate_cpu_ms = 0;
  double read_cpu_ms = 0;
  std::uint32_t cores = 1;
  bool device_on_cores = false;  // the device computes on the very cores the stages run on
};

// What all cores together have to do, divided among them.
[[nodiscard]] inline double cpu_bound_ms(const RestoreWork& work) {
  const double stages = (work.decode_cpu_ms + work.allocate_cpu_ms + work.read_cpu_ms) / work.cores;
  return work.device_on_cores ? work.in_memory_ms + stages : stages;
}
[[nodiscard]] inline double bound_ms(const RestoreWork& work) {
  return std::max({work.raw_read_ms, work.in_memory_ms, cpu_bound_ms(work)});
}
// The same, where the compute that is left after the last byte counts as inevitable.
[[nodiscard]] inline double bound_with_tail_ms(const RestoreWork& work, double tail_ms) {
  const double bound = bound_ms(work);
  return work.raw_read_ms >= bound ? bound + tail_ms : bound;
}

// What one measured restore did: the bound's figures as they were while the others ran.
struct ContendedWork {
  double read_ms = 0;  // with requests in flight
  double in_memory_ms = 0;
  double cpu_ms = 0;  // of the whole process
  std::uint32_t cores = 1;
};
[[nodiscard]] inline double contended_bound_ms(const ContendedWork& work) {
  return std::max({work.read_ms, work.in_memory_ms, work.cpu_ms / work.cores});
}

}  // namespace mzcache::tools
