// The plane kernels with AVX-512 (F, BW, DQ, VL): a plane is a mask.
#include <immintrin.h>

#include <cstring>

#include "codec/plane_kernels.h"

namespace mzcache::codec {
namespace {

// The least of eight unsigned symbols has an instruction of its own.
inline int least_of(__m512i values) {
  const __m256i sixteen =
      _mm256_min_epu16(_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64(values, 1));
  const __m128i eight =
      _mm_min_epu16(_mm256_castsi256_si128(sixteen), _mm256_extracti128_si256(sixteen, 1));
  return _mm_cvtsi128_si32(_mm_minpos_epu16(eight)) & 0xFFFF;
}

#include "codec/plane_clamp.inl"
#include "codec/plane_transpose.inl"

// A block as bytes above `base`.
struct ByteBlock {
  __m512i offsets;
  int base;

  int equal(int offset) const {
    return __builtin_popcountll(
        _mm512_cmpeq_epi8_mask(offsets, _mm512_set1_epi8(static_cast<char>(offset))));
  }
  EndCounts counts(int least, int most) const { return byte_counts(*this, most - least); }
  void limit(int least, int most) {
    const __m512i up = _mm512_set1_epi8(static_cast<char>(least - base));
    const __m512i largest = _mm512_set1_epi8(static_cast<char>(most - least));
    offsets = _mm512_min_epu8(_mm512_subs_epu8(offsets, up), largest);
    base = least;
  }
};

inline void store_bytes(__m512i offsets, std::int16_t least, std::int16_t* low,
                        std::int16_t* high) {
  const __m512i base = _mm512_set1_epi16(least);
  const __m512i first = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(offsets));
  const __m512i second = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(offsets, 1));
  _mm512_storeu_si512(low, _mm512_add_epi16(first, base));
  _mm512_storeu_si512(high, _mm512_add_epi16(second, base));
}

inline void pack_plane(__m512i offsets, unsigned plane, std::byte* planes) {
  const std::uint64_t bits =
      _mm512_test_epi8_mask(offsets, _mm512_set1_epi8(static_cast<char>(1U << plane)));
  std::memcpy(planes + std::size_t{8} * plane, &bits, sizeof bits);
}

inline std::byte* pack_block(std::int16_t* low, std::int16_t* high, std::byte* out) {
  const __m512i first = _mm512_loadu_si512(low);
  const __m512i second = _mm512_loadu_si512(high);
  // Signed order as unsigned order, the other way round for the largest.
  const __m512i up = _mm512_xor_si512(_mm512_min_epi16(first, second), _mm512_set1_epi16(-0x8000));
  const __m512i down = _mm512_xor_si512(_mm512_max_epi16(first, second), _mm512_set1_epi16(0x7FFF));
  PlaneRange range{static_cast<std::int16_t>(least_of(up) - 0x8000), 0};
  const int largest = 0x7FFF - least_of(down);
  if (largest - range.least > 255) return pack_plain_block(low, high, range, largest, out);
  const __m512i base = _mm512_set1_epi16(range.least);
  const __m512i bytes =
      _mm512_packus_epi16(_mm512_sub_epi16(first, base), _mm512_sub_epi16(second, base));
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  ByteBlock block{_mm512_permutexvar_epi64(order, bytes), range.least};
  clamp(block, range, largest);
  store_bytes(block.offsets, range.least, low, high);
  out = write_range(out, range);
  // Most blocks have three or four: all are written, and written over where there are fewer.
  for (unsigned plane = 0; plane < 4; ++plane) pack_plane(block.offsets, plane, out);
  for (unsigned plane = 4; plane < range.width; ++plane) pack_plane(block.offsets, plane, out);
  return out + std::size_t{8} * range.width;
}

inline __m512i add_plane(__m512i offsets, const std::byte* planes, unsigned plane) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, planes + std::size_t{8} * plane, sizeof bits);
  return _mm512_mask_add_epi8(offsets, bits, offsets,
                              _mm512_set1_epi8(static_cast<char>(1U << plane % 8)));
}

// The bits of more than eight planes, above the low bytes.
inline void add_high_planes(const std::byte* planes, unsigned width, std::int16_t* low,
                            std::int16_t* high) {
  __m512i first = _mm512_loadu_si512(low);
  __m512i second = _mm512_loadu_si512(high);
  for (unsigned plane = 8; plane < width; ++plane) {
    const __m512i bit = _mm512_set1_epi16(static_cast<short>(1U << plane));
    std::uint32_t bits[2] = {};
    std::memcpy(bits, planes + std::size_t{8} * plane, sizeof bits);
    first = _mm512_mask_add_epi16(first, bits[0], first, bit);
    second = _mm512_mask_add_epi16(second, bits[1], second, bit);
  }
  _mm512_storeu_si512(low, first);
  _mm512_storeu_si512(high, second);
}

inline void unpack(const std::byte* planes, const PlaneRange& range, std::int16_t* low,
                   std::int16_t* high) {
  __m512i offsets = _mm512_setzero_si512();
  for (unsigned plane = 0; plane < 4; ++plane) offsets = add_plane(offsets, planes, plane);
  for (unsigned plane = 4; plane < range.width && plane < 8; ++plane) {
    offsets = add_plane(offsets, planes, plane);
  }
  // What was read beyond the block's planes goes.
  offsets = _mm512_and_si512(offsets, _mm512_set1_epi8(static_cast<char>((1U << range.width) - 1)));
  store_bytes(offsets, range.least, low, high);
  if (range.width > 8) add_high_planes(planes, range.width, low, high);
}

#include "codec/plane_blocks.inl"

}  // namespace

const PlaneKernels kPlaneAvx512{"avx512", pack_blocks, unpack_blocks, transpose};

}  // namespace mzcache::codec
