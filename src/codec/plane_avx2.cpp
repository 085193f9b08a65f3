// The plane kernels with AVX2.
#include <immintrin.h>

#include <cstring>

#include "codec/plane_kernels.h"

namespace mzcache::codec {
namespace {

inline __m256i load16(const std::int16_t* symbols) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols));
}

// The least of eight unsigned symbols has an instruction of its own.
inline int least_of(__m256i values) {
  const __m128i eight =
      _mm_min_epu16(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
  return _mm_cvtsi128_si32(_mm_minpos_epu16(eight)) & 0xFFFF;
}

#include "codec/plane_clamp.inl"
#include "codec/plane_transpose.inl"

// A block as bytes above `base`.
struct ByteBlock {
  __m256i offsets[2];
  int base;

  int equal(int offset) const {
    const __m256i wanted = _mm256_set1_epi8(static_cast<char>(offset));
    int count = 0;
    for (const __m256i half : offsets) {
      const int matches = _mm256_movemask_epi8(_mm256_cmpeq_epi8(half, wanted));
      count += __builtin_popcount(static_cast<unsigned>(matches));
    }
    return count;
  }
  EndCounts counts(int least, int most) const { return byte_counts(*this, most - least); }
  void limit(int least, int most) {
    const __m256i up = _mm256_set1_epi8(static_cast<char>(least - base));
    const __m256i largest = _mm256_set1_epi8(static_cast<char>(most - least));
    for (__m256i& half : offsets) half = _mm256_min_epu8(_mm256_subs_epu8(half, up), largest);
    base = least;
  }
};

inline void store_bytes(__m256i offsets, __m256i least, std::int16_t* to) {
  const __m256i first = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(offsets));
  const __m256i second = _mm256_cvtepu8_epi16(_mm256_extracti128_si256(offsets, 1));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_add_epi16(first, least));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16), _mm256_add_epi16(second, least));
}

// The plane's bit becomes each byte's sign; what is moved across bytes lies below it.
inline void pack_plane(const ByteBlock& block, unsigned plane, std::byte* planes) {
  const __m128i places = _mm_cvtsi32_si128(static_cast<int>(7 - plane));
  for (std::size_t half = 0; half < 2; ++half) {
    const int bits = _mm256_movemask_epi8(_mm256_sll_epi16(block.offsets[half], places));
    std::memcpy(planes + std::size_t{8} * plane + 4 * half, &bits, sizeof bits);
  }
}

inline std::byte* pack_block(std::int16_t* low, std::int16_t* high, std::byte* out) {
  const __m256i values[4] = {load16(low), load16(low + 16), load16(high), load16(high + 16)};
  const __m256i least = _mm256_min_epi16(_mm256_min_epi16(values[0], values[1]),
                                         _mm256_min_epi16(values[2], values[3]));
  const __m256i most = _mm256_max_epi16(_mm256_max_epi16(values[0], values[1]),
                                        _mm256_max_epi16(values[2], values[3]));
  // Signed order as unsigned order, the other way round for the largest.
  PlaneRange range{static_cast<std::int16_t>(
                       least_of(_mm256_xor_si256(least, _mm256_set1_epi16(-0x8000))) - 0x8000),
                   0};
  const int largest = 0x7FFF - least_of(_mm256_xor_si256(most, _mm256_set1_epi16(0x7FFF)));
  if (largest - range.least > 255) return pack_plain_block(low, high, range, largest, out);
  ByteBlock block{};
  block.base = range.least;
  const __m256i base = _mm256_set1_epi16(range.least);
  for (std::size_t half = 0; half < 2; ++half) {
    const __m256i bytes = _mm256_packus_epi16(_mm256_sub_epi16(values[2 * half], base),
                                              _mm256_sub_epi16(values[2 * half + 1], base));
    block.offsets[half] = _mm256_permute4x64_epi64(bytes, 0xD8);
  }
  clamp(block, range, largest);
  const __m256i moved = _mm256_set1_epi16(range.least);
  store_bytes(block.offsets[0], moved, low);
  store_bytes(block.offsets[1], moved, high);
  out = write_range(out, range);
  // Most blocks have three or four: all are written, and written over where there are fewer.
  for (unsigned plane = 0; plane < 4; ++plane) pack_plane(block, plane, out);
  for (unsigned plane = 4; plane < range.width; ++plane) pack_plane(block, plane, out);
  return out + std::size_t{8} * range.width;
}

// 32 bytes, -1 where the plane's bit is set.
inline __m256i spread(const std::byte* planes, unsigned plane, std::size_t half) {
  int bits = 0;
  std::memcpy(&bits, planes + std::size_t{8} * plane + 4 * half, sizeof bits);
  const __m256i which = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2,
                                         2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201U));
  const __m256i spread_bits = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), which);
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread_bits, bit), bit);
}
inline __m256i bits_at(const std::byte* planes, unsigned plane, std::size_t half) {
  return _mm256_and_si256(spread(planes, plane, half),
                          _mm256_set1_epi8(static_cast<char>(1U << plane % 8)));
}

// The bits of more than eight planes, above the low bytes.
inline void add_high_planes(const std::byte* planes, unsigned width, std::size_t half,
                            std::int16_t* to) {
  __m256i high = _mm256_setzero_si256();
  for (unsigned plane = 8; plane < width; ++plane) {
    high = _mm256_or_si256(high, bits_at(planes, plane, half));
  }
  const __m128i part[2] = {_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1)};
  for (int i = 0; i < 2; ++i) {
    const __m256i above = _mm256_slli_epi16(_mm256_cvtepu8_epi16(part[i]), 8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16 * i),
                        _mm256_add_epi16(load16(to + 16 * i), above));
  }
}

inline void unpack(const std::byte* planes, const PlaneRange& range, std::int16_t* low,
                   std::int16_t* high) {
  __m256i first = bits_at(planes, 3, 0);
  __m256i second = bits_at(planes, 3, 1);
  for (unsigned plane = 0; plane < 3; ++plane) {
    first = _mm256_or_si256(first, bits_at(planes, plane, 0));
    second = _mm256_or_si256(second, bits_at(planes, plane, 1));
  }
  for (unsigned plane = 4; plane < range.width && plane < 8; ++plane) {
    first = _mm256_or_si256(first, bits_at(planes, plane, 0));
    second = _mm256_or_si256(second, bits_at(planes, plane, 1));
  }
  // What was read beyond the block's planes goes.
  const __m256i mask = _mm256_set1_epi8(static_cast<char>((1U << range.width) - 1));
  const __m256i least = _mm256_set1_epi16(range.least);
  store_bytes(_mm256_and_si256(first, mask), least, low);
  store_bytes(_mm256_and_si256(second, mask), least, high);
  if (range.width > 8) {
    add_high_planes(planes, range.width, 0, low);
    add_high_planes(planes, range.width, 1, high);
  }
}

#include "codec/plane_blocks.inl"

}  // namespace

const PlaneKernels kPlaneAvx2{"avx2", pack_blocks, unpack_blocks, transpose};

}  // namespace mzcache::codec
