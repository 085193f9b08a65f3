// The clamping of a block, over a type `Block` of the including file:
//   counts(least, most) → EndCounts; limit(least, most): moves symbols into that range.
// Included inside namespace mzcache::codec { namespace { … } }.

inline unsigned bits_of(int range) {
  return range == 0 ? 0U : 32U - static_cast<unsigned>(__builtin_clz(static_cast<unsigned>(range)));
}

// How many symbols are at the ends of a range, and one inwards.
struct EndCounts {
  int least = 0;
  int after_least = 0;
  int before_most = 0;
  int most = 0;
};

// By how much both ends move inwards, and what that costs.
struct Trim {
  int least_by = 0;
  int most_by = 0;
  int cost = 0;
};

// The cheapest way of a range that is one or two symbols too wide; the most gives way first.
inline Trim best_trim(int excess, const EndCounts& counts) {
  if (excess == 1) {
    return counts.least < counts.most ? Trim{1, 0, counts.least} : Trim{0, 1, counts.most};
  }
  Trim best{0, 2, 4 * counts.most + counts.before_most};
  const int both = counts.least + counts.most;
  if (both < best.cost) best = {1, 1, both};
  const int least = 4 * counts.least + counts.after_least;
  if (least < best.cost) best = {2, 0, least};
  return best;
}

// True where a symbol moved.
template <class Block>
inline bool clamp(Block& block, PlaneRange& range, int most) {
  int least = range.least;
  bool moved = false;
  for (;;) {
    range = {static_cast<std::int16_t>(least), bits_of(most - least)};
    if (range.width == 0) return moved;
    const int excess = most - least + 1 - (1 << (range.width - 1));
    // A step from one end and two from the other cost 5 at least.
    if (excess > 2) return moved;
    const Trim trim = best_trim(excess, block.counts(least, most));
    if (trim.cost > kClampCostMax) return moved;
    least += trim.least_by;
    most -= trim.most_by;
    block.limit(least, most);
    moved = true;
  }
}

// Symbols where they are, one by one: the reference, and ranges too wide for bytes.
struct PlainBlock {
  std::int16_t* halves[2];

  EndCounts counts(int least, int most) const {
    EndCounts out;
    for (const std::int16_t* half : halves) {
      for (std::uint32_t i = 0; i < kPlaneValues / 2; ++i) {
        out.least += half[i] == least ? 1 : 0;
        out.after_least += half[i] == least + 1 ? 1 : 0;
        out.before_most += half[i] == most - 1 ? 1 : 0;
        out.most += half[i] == most ? 1 : 0;
      }
    }
    return out;
  }
  void limit(int least, int most) const {
    for (std::int16_t* half : halves) {
      for (std::uint32_t i = 0; i < kPlaneValues / 2; ++i) {
        const int symbol = half[i];
        half[i] = static_cast<std::int16_t>(symbol < least ? least : (symbol > most ? most : symbol));
      }
    }
  }
};

inline void pack_plain(const PlainBlock& block, const PlaneRange& range, std::byte* planes) {
  for (unsigned plane = 0; plane < range.width; ++plane) {
    for (std::uint32_t half = 0; half < 2; ++half) {
      std::uint32_t bits = 0;
      for (std::uint32_t i = 0; i < kPlaneValues / 2; ++i) {
        const auto offset = static_cast<unsigned>(block.halves[half][i] - range.least);
        bits |= (offset >> plane & 1U) << i;
      }
      std::memcpy(planes + std::size_t{8} * plane + std::size_t{4} * half, &bits, sizeof bits);
    }
  }
}

// What precedes a block's planes; a range may have to be written wider than it is.
inline std::byte* write_range(std::byte* out, PlaneRange& range) {
  const int place = range.least + 8 + (1 << range.width) / 2;
  if (range.width <= kShortWidthMax && place >= 0 && place < 16) {
    *out++ = static_cast<std::byte>(range.width << 4 | static_cast<unsigned>(place));
    return out;
  }
  range.width = range.width < kLongWidthMin ? kLongWidthMin : range.width;
  const auto least = static_cast<unsigned>(range.least - kLongLeastMin);
  *out++ = static_cast<std::byte>((range.width + kLongMark) << 4 | (least & 15U));
  *out++ = static_cast<std::byte>(least >> 4);
  return out;
}

inline std::byte* pack_plain_block(std::int16_t* low, std::int16_t* high, PlaneRange range,
                                   int most, std::byte* out) {
  PlainBlock block{{low, high}};
  clamp(block, range, most);
  out = write_range(out, range);
  pack_plain(block, range, out);
  return out + std::size_t{8} * range.width;
}
