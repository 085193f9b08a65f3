// Blocks one after another: their ranges, and their planes by the including file's unpack().
// Included inside namespace mzcache::codec { namespace { … } }.

// Null where the bytes end early.
inline const std::byte* read_range(const std::byte* from, const std::byte* end, PlaneRange& range) {
  if (from == end) return nullptr;
  const auto first = static_cast<unsigned>(*from++);
  unsigned width = first >> 4;
  int least = static_cast<int>(first & 15U);
  if (width <= kShortWidthMax) {
    least += -8 - (1 << width) / 2;
  } else {
    if (from == end) return nullptr;
    width -= kLongMark;
    least += static_cast<int>(static_cast<unsigned>(*from++) << 4) + kLongLeastMin;
  }
  range.least = static_cast<std::int16_t>(least);
  range.width = width;
  return end - from < static_cast<std::ptrdiff_t>(8 * width) ? nullptr : from;
}

inline const std::byte* unpack_blocks(const std::byte* from, const std::byte* end,
                                      std::uint32_t count, std::int16_t* low, std::int16_t* high,
                                      std::size_t stride) {
  for (std::uint32_t i = 0; i < count; ++i) {
    PlaneRange range;
    from = read_range(from, end, range);
    if (from == nullptr) return nullptr;
    unpack(from, range, low + i * stride, high + i * stride);
    from += std::size_t{8} * range.width;
  }
  return from;
}
