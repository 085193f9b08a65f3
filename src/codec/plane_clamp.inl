// The clamping of a block. The including file has already defined ends_of(symbols) → its least and
// largest symbol, count_equal(symbols, value), and limit(symbols, least, most).
// Included inside namespace mzcache::codec { namespace { … } }.

inline unsigned bits_of(int range) {
  return range == 0 ? 0U : 32U - static_cast<unsigned>(__builtin_clz(static_cast<unsigned>(range)));
}

// What moving the symbols below end + by · inwards to there costs. There are symbols at the end.
inline int trim_cost(const std::int16_t* symbols, int end, int inwards, int by) {
  if (by == 0) return 0;
  const int at_end = count_equal(symbols, end);
  return by == 1 ? at_end : 4 * at_end + count_equal(symbols, end + inwards);
}

inline PlaneRange clamp(std::int16_t* symbols) {
  const BlockEnds ends = ends_of(symbols);
  int least = ends.least;
  int most = ends.most;
  for (;;) {
    const unsigned width = bits_of(most - least);
    if (width == 0) break;
    const int excess = most - least + 1 - (1 << (width - 1));
    // A step from one end and two from the other cost 5 at least.
    if (excess > 2) break;
    int best = kClampCostMax + 1;
    int best_by = 0;
    for (int by = 0; by <= excess; ++by) {
      const int cost = trim_cost(symbols, least, 1, by) + trim_cost(symbols, most, -1, excess - by);
      if (cost < best) {
        best = cost;
        best_by = by;
      }
    }
    if (best > kClampCostMax) break;
    least += best_by;
    most -= excess - best_by;
    limit(symbols, least, most);
  }
  return {static_cast<std::int16_t>(least), bits_of(most - least)};
}
