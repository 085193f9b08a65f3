// Blocks one after another, by the including file's
//   pack_block(low, high, out): clamps a block and writes its range and planes, and up to
//   kBlockBytesMax bytes in all; returns what follows;
//   unpack(planes, range, low, high): may look at kPlanesRead planes.
// Included inside namespace mzcache::codec { namespace { … } }.

inline constexpr unsigned kPlanesRead = 4;

inline std::byte* pack_blocks(std::int16_t* low, std::int16_t* high, std::size_t stride,
                              std::uint32_t count, std::byte* out, std::byte* end) {
  for (std::uint32_t i = 0; i < count; ++i) {
    std::int16_t* const low_row = low + i * stride;
    std::int16_t* const high_row = high + i * stride;
    if (end - out >= static_cast<std::ptrdiff_t>(kBlockBytesMax)) {
      out = pack_block(low_row, high_row, out);
      continue;
    }
    std::byte last[kBlockBytesMax];
    const std::ptrdiff_t bytes = pack_block(low_row, high_row, last) - last;
    if (end - out < bytes) return nullptr;
    std::memcpy(out, last, static_cast<std::size_t>(bytes));
    out += bytes;
  }
  return out;
}

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
    const std::size_t bytes = std::size_t{8} * range.width;
    if (end - from >= static_cast<std::ptrdiff_t>(8 * kPlanesRead)) {
      unpack(from, range, low + i * stride, high + i * stride);
    } else {
      std::byte last[std::size_t{8} * kPlanesMax] = {};
      std::memcpy(last, from, bytes);
      unpack(last, range, low + i * stride, high + i * stride);
    }
    from += bytes;
  }
  return from;
}
