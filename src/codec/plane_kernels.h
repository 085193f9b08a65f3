// Blocks of 64 symbols as bit planes, for `packed`, behind one dispatch point. Included by files
// compiled for newer processors than the rest: no inline functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mzcache::codec {

inline constexpr std::uint32_t kPlaneValues = 64;
inline constexpr unsigned kPlanesMax = 12;
// Moving symbols may cost so much, in squared steps, where it saves a bit of every symbol.
inline constexpr int kClampCostMax = 4;

// A range takes one byte where it is at most kShortWidthMax bits wide and lies around zero: the
// width, and in the low half its least symbol from -8 - 2^width / 2 on. Else two: width +
// kLongMark, and 12 bits of least symbol from kLongLeastMin on.
inline constexpr unsigned kShortWidthMax = 4;
inline constexpr unsigned kLongMark = 3;
inline constexpr unsigned kLongWidthMin = 2;
inline constexpr int kLongLeastMin = -2048;
inline constexpr std::size_t kBlockBytesMax = 2 + std::size_t{8} * kPlanesMax;

struct PlaneRange {
  std::int16_t least = 0;
  unsigned width = 0;  // bits of symbol - least
};

struct PlaneKernels {
  const char* name;
  // `count` blocks to `out`, each its range and then as many planes of 64 bits as it is wide, the
  // lowest first. Symbols, |symbol| <= 2047, 0 … 31 of block i lie at low + i · stride, 32 … 63 at
  // high + i · stride. While a bit fewer costs at most kClampCostMax, symbols move into the
  // narrower range, where they lie, too; doing it again changes nothing. Returns what follows the
  // blocks, null where `end` comes before them.
  std::byte* (*pack_blocks)(std::int16_t* low, std::int16_t* high, std::size_t stride,
                            std::uint32_t count, std::byte* out, std::byte* end);
  // `count` blocks with their ranges, one after another: symbols 0 … 31 of block i to low + i ·
  // stride, 32 … 63 to high + i · stride. Returns what follows them, null where the bytes end
  // early.
  const std::byte* (*unpack_blocks)(const std::byte* from, const std::byte* end,
                                    std::uint32_t count, std::int16_t* low, std::int16_t* high,
                                    std::size_t stride);
  // 32 rows of 32 symbols, strides in symbols, to their transpose.
  void (*transpose)(const std::int16_t* from, std::size_t from_stride, std::int16_t* to,
                    std::size_t to_stride);
};

extern const PlaneKernels kPlaneScalar;  // the reference
#if defined(__x86_64__)
extern const PlaneKernels kPlaneAvx2;
extern const PlaneKernels kPlaneAvx512;
#endif

}  // namespace mzcache::codec
