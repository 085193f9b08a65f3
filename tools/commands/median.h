// The figure that counts where a benchmark repeats.
#pragma once

#include <algorithm>
#include <vector>

namespace mzcache::tools {

// The middle value, the larger of the middle two; there has to be one.
[[nodiscard]] inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace mzcache::tools
