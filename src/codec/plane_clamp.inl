// The clamping of a block, as loops that compilers turn into the including file's vectors.
// Included inside namespace mzcache::codec { namespace { … } }.

inline unsigned bits_of(int range) {
  return range == 0 ? 0U : 32U - static_cast<unsigned>(__builtin_clz(static_cast<unsigned>(range)));
}

inline int count_equal(const std::int16_t* symbols, int value) {
  std::int16_t count = 0;
  const auto wanted = static_cast<std::int16_t>(value);
  for (std::uint32_t i = 0; i < kPlaneValues; ++i) {
    count = static_cast<std::int16_t>(count + (symbols[i] == wanted ? 1 : 0));
  }
  return count;
}

// What moving the symbols below least + by, or above most - by, to there costs. by ≤ 2: beyond it is
// more than kClampCostMax.
inline int trim_cost(const std::int16_t* symbols, int end, int inwards, int by) {
  if (by == 0) return 0;
  if (by > 2) return kClampCostMax + 1;
  const int at_end = count_equal(symbols, end);
  return by == 1 ? at_end : 4 * at_end + count_equal(symbols, end + inwards);
}

inline PlaneRange clamp(std::int16_t* symbols) {
  std::int16_t low = symbols[0];
  std::int16_t high = symbols[0];
  for (std::uint32_t i = 0; i < kPlaneValues; ++i) {
    low = symbols[i] < low ? symbols[i] : low;
    high = symbols[i] > high ? symbols[i] : high;
  }
  int least = low;
  int most = high;
  for (;;) {
    const unsigned width = bits_of(most - least);
    if (width == 0) break;
    const int excess = most - least + 1 - (1 << (width - 1));
    if (excess > 4) break;
    int best = kClampCostMax + 1;
    int best_by = 0;
    for (int by = 0; by <= excess; ++by) {
      const int cost =
          trim_cost(symbols, least, 1, by) + trim_cost(symbols, most, -1, excess - by);
      if (cost < best) {
        best = cost;
        best_by = by;
      }
    }
    if (best > kClampCostMax) break;
    least += best_by;
    most -= excess - best_by;
    const auto floor = static_cast<std::int16_t>(least);
    const auto ceiling = static_cast<std::int16_t>(most);
    for (std::uint32_t i = 0; i < kPlaneValues; ++i) {
      const std::int16_t raised = symbols[i] < floor ? floor : symbols[i];
      symbols[i] = raised > ceiling ? ceiling : raised;
    }
  }
  return {static_cast<std::int16_t>(least), bits_of(most - least)};
}
