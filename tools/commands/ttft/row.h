// A row of `bench ttft`: what its runs showed, as medians, beside its bound.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "commands/ttft/bound.h"
#include "mzcache/reports.h"
#include "report_json.h"

namespace mzcache::tools {

// One run.
struct TtftSample {
  double remaining_percent = 100;
  RestoreReport restore;
  double ttft_ms = 0;
  double compute_ms = 0;  // the device was busy
  double cpu_ms = 0;
  double system_cpu_ms = 0;
  double idle_ms = 0;
  RestoreWork work;  // in_memory_ms is filled in once all of it was measured
  std::uint64_t raw_bytes_read = 0;
  std::uint64_t raw_chunk_bytes = 0;      // of encoded chunks
  std::uint64_t encoded_chunk_bytes = 0;  // the same, encoded
};

struct TtftRow {
  std::uint32_t context_tokens = 0;
  double asked_percent = 100;
  std::string policy;
  bool reachable = true;
  std::vector<TtftSample> samples;
};

// What was measured beside the rows of a context.
struct TtftReferences {
  double in_memory_ms = 0;        // launched as in a restore
  double in_memory_best_ms = 0;   // launched as one piece where the device can
  double partial_offload_ms = 0;  // at the row's level
};

// A row that could not be reached has its names, remaining_percent and "reachable": false.
[[nodiscard]] Json to_json(const TtftRow& row, const TtftReferences& references);
// The median of a row's runs.
[[nodiscard]] double median_ttft_ms(const TtftRow& row);

void print_ttft_heading();
void print_ttft_row(const Json& row);

}  // namespace mzcache::tools
