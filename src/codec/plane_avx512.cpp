// The plane kernels with AVX-512 (F, BW, DQ, VL): a plane is a mask.
#include <immintrin.h>

#include <cstring>

#include "codec/plane_kernels.h"

namespace mzcache::codec {
namespace {

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
