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

inline BlockEnds ends_of(const std::int16_t* symbols) {
  const __m512i first = _mm512_loadu_si512(symbols);
  const __m512i second = _mm512_loadu_si512(symbols + 32);
  const __m512i least = _mm512_min_epi16(first, second);
  const __m512i most = _mm512_max_epi16(first, second);
  // Signed order as unsigned order, the other way round for the largest.
  const __m512i up = _mm512_xor_si512(least, _mm512_set1_epi16(-0x8000));
  const __m512i down = _mm512_xor_si512(most, _mm512_set1_epi16(0x7FFF));
  return {least_of(up) - 0x8000, 0x7FFF - least_of(down)};
}

inline int count_equal(const std::int16_t* symbols, int value) {
  const __m512i wanted = _mm512_set1_epi16(static_cast<short>(value));
  return __builtin_popcount(_mm512_cmpeq_epi16_mask(_mm512_loadu_si512(symbols), wanted)) +
         __builtin_popcount(_mm512_cmpeq_epi16_mask(_mm512_loadu_si512(symbols + 32), wanted));
}

inline void limit(std::int16_t* symbols, int least, int most) {
  const __m512i low = _mm512_set1_epi16(static_cast<short>(least));
  const __m512i high = _mm512_set1_epi16(static_cast<short>(most));
  for (std::size_t i = 0; i < kPlaneValues; i += 32) {
    const __m512i values = _mm512_loadu_si512(symbols + i);
    _mm512_storeu_si512(symbols + i, _mm512_min_epi16(_mm512_max_epi16(values, low), high));
  }
}

#include "codec/plane_clamp.inl"
#include "codec/plane_transpose.inl"

void pack(const std::int16_t* symbols, const PlaneRange& range, std::byte* planes) {
  const __m512i least = _mm512_set1_epi16(range.least);
  const __m512i first = _mm512_sub_epi16(_mm512_loadu_si512(symbols), least);
  const __m512i second = _mm512_sub_epi16(_mm512_loadu_si512(symbols + 32), least);
  for (unsigned plane = 0; plane < range.width; ++plane) {
    const __m512i bit = _mm512_set1_epi16(static_cast<short>(1U << plane));
    const std::uint32_t bits[2] = {_mm512_test_epi16_mask(first, bit),
                                   _mm512_test_epi16_mask(second, bit)};
    std::memcpy(planes + std::size_t{8} * plane, bits, sizeof bits);
  }
}

inline void unpack(const std::byte* planes, const PlaneRange& range, std::int16_t* low,
                   std::int16_t* high) {
  __m512i first = _mm512_set1_epi16(range.least);
  __m512i second = first;
  for (unsigned plane = 0; plane < range.width; ++plane) {
    const __m512i bit = _mm512_set1_epi16(static_cast<short>(1U << plane));
    std::uint32_t bits[2] = {};
    std::memcpy(bits, planes + std::size_t{8} * plane, sizeof bits);
    first = _mm512_mask_add_epi16(first, bits[0], first, bit);
    second = _mm512_mask_add_epi16(second, bits[1], second, bit);
  }
  _mm512_storeu_si512(low, first);
  _mm512_storeu_si512(high, second);
}

#include "codec/plane_blocks.inl"

}  // namespace

const PlaneKernels kPlaneAvx512{"avx512", clamp, pack, unpack_blocks, transpose};

}  // namespace mzcache::codec
