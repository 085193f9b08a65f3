// Actor timelines as Chrome/Perfetto trace JSON: read back, summed up, drawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mzcache/errors.h"

namespace mzcache {

struct TraceStage {
  std::string name;                    // "read", "compute", …
  double busy_ms = 0;                  // union of its spans
  double overlap_compute_percent = 0;  // of it, while the device computed
  double overlap_others_percent = 0;   // of it, while any other stage was busy
  std::uint64_t spans = 0;
  std::uint64_t bytes = 0;
};

// Throws Exception: which file, and what is wrong with it.
[[nodiscard]] std::vector<TraceStage> summarize_trace(const std::string& file);
void draw_trace(const std::string& file, const std::string& svg_file);

}  // namespace mzcache
