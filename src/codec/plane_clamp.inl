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

// Of a block of bytes above the least symbol: equal(offset) counts those that are so much above.
template <class Block>
inline EndCounts byte_counts(const Block& block, int range) {
  return {block.equal(0), block.equal(1), block.equal(range - 1), block.equal(range)};
}

// A way to narrow a range, as one number so that the least is the cheapest: what it costs, by how
// much the least symbol moves, by how much the most. Ends give way at the most first.
inline int trim(int cost, int least_by, int most_by) {
  return cost << 4 | least_by << 2 | most_by;
}
inline int lesser(int a, int b) { return a < b ? a : b; }

// The cheapest way for a range that is one or two symbols too wide.
inline int best_trim(int excess, const EndCounts& counts) {
  const int one = lesser(trim(counts.most, 0, 1), trim(counts.least, 1, 0));
  const int two = lesser(lesser(trim(4 * counts.most + counts.before_most, 0, 2),
                                trim(counts.least + counts.most, 1, 1)),
                         trim(4 * counts.least + counts.after_least, 2, 0));
  return excess == 1 ? one : two;
}

template <class Block>
inline void clamp(Block& block, PlaneRange& range, int most) {
  int least = range.least;
  for (;;) {
    const unsigned width = bits_of(most - least);
    // A step from one end and two from the other cost 5 at least.
    const int excess = most - least + 1 - (1 << width >> 1);
    range = {static_cast<std::int16_t>(least), width};
    if (width == 0 || excess > 2) return;
    const int way = best_trim(excess, block.counts(least, most));
    if (way >= trim(kClampCostMax + 1, 0, 0)) return;
    least += way >> 2 & 3;
    most -= way & 3;
    block.limit(least, most);
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
