// Time to the first token after an eviction, on a simulated machine: rows as in `bench ttft`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mzcache/errors.h"
#include "sim/machines.h"

namespace mzcache::sim {

struct TtftRow {
  std::uint32_t context_tokens = 0;
  double remaining_percent = 0;  // reached; asked is `asked_percent`
  double asked_percent = 0;
  std::string policy;
  bool reachable = true;  // memory alone cannot reach every level
  double ttft_ms = 0;
  double allocate_ms = 0;
  double read_ms = 0;
  double decode_ms = 0;
  double compute_ms = 0;
  double wait_ms = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_decoded = 0;
  double in_memory_ms = 0;
  double partial_offload_ms = 0;
};

struct TtftOptions {
  std::vector<std::uint32_t> contexts;
  std::vector<double> remaining;      // percent
  std::vector<std::string> policies;  // empty: all
  std::uint32_t prompt_tokens = 8;
  std::uint64_t seed = 1;
  std::string trace_file;  // "": none; else the last row's restore, in virtual time
};
// kBadArgument names an unknown policy; the trace may fail to be written.
[[nodiscard]] Result<std::vector<TtftRow>> simulate_ttft(const MachineModel& machine,
                                                         const actors::ModelDescription& model,
                                                         const TtftOptions& options);

}  // namespace mzcache::sim
