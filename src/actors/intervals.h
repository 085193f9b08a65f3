// Sets of moments: sorted, disjoint, half-open intervals.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "actors/ports.h"

namespace mzcache::actors {

using Intervals = std::vector<std::pair<Nanoseconds, Nanoseconds>>;

// Any intervals as a set: sorted, overlapping and touching ones joined, empty ones gone.
[[nodiscard]] inline Intervals normalized(Intervals intervals) {
  std::erase_if(intervals, [](const auto& i) { return i.second <= i.first; });
  std::sort(intervals.begin(), intervals.end());
  std::size_t kept = 0;
  for (const auto& interval : intervals) {
    if (kept > 0 && interval.first <= intervals[kept - 1].second) {
      intervals[kept - 1].second = std::max(intervals[kept - 1].second, interval.second);
    } else {
      intervals[kept++] = interval;
    }
  }
  intervals.resize(kept);
  return intervals;
}

[[nodiscard]] inline Nanoseconds total(const Intervals& set) {
  Nanoseconds sum{0};
  for (const auto& [begin, end] : set) sum += end - begin;
  return sum;
}

// How long both sets hold at once.
[[nodiscard]] inline Nanoseconds overlap(const Intervals& a, const Intervals& b) {
  Nanoseconds sum{0};
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const Nanoseconds begin = std::max(a[i].first, b[k].first);
    const Nanoseconds end = std::min(a[i].second, b[k].second);
    if (begin < end) sum += end - begin;
    if (a[i].second < b[k].second) {
      ++i;
    } else {
      ++k;
    }
  }
  return sum;
}

}  // namespace mzcache::actors
