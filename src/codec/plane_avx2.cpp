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

inline BlockEnds ends_of(const std::int16_t* symbols) {
  __m256i least = load16(symbols);
  __m256i most = least;
  for (std::size_t i = 16; i < kPlaneValues; i += 16) {
    const __m256i values = load16(symbols + i);
    least = _mm256_min_epi16(least, values);
    most = _mm256_max_epi16(most, values);
  }
  // Signed order as unsigned order, the other way round for the largest.
  const __m256i up = _mm256_xor_si256(least, _mm256_set1_epi16(-0x8000));
  const __m256i down = _mm256_xor_si256(most, _mm256_set1_epi16(0x7FFF));
  return {least_of(up) - 0x8000, 0x7FFF - least_of(down)};
}

inline int count_equal(const std::int16_t* symbols, int value) {
  const __m256i wanted = _mm256_set1_epi16(static_cast<short>(value));
  int count = 0;
  for (std::size_t i = 0; i < kPlaneValues; i += 32) {
    const __m256i equal = _mm256_packs_epi16(_mm256_cmpeq_epi16(load16(symbols + i), wanted),
                                             _mm256_cmpeq_epi16(load16(symbols + i + 16), wanted));
    count += __builtin_popcount(static_cast<unsigned>(_mm256_movemask_epi8(equal)));
  }
  return count;
}

inline void limit(std::int16_t* symbols, int least, int most) {
  const __m256i low = _mm256_set1_epi16(static_cast<short>(least));
  const __m256i high = _mm256_set1_epi16(static_cast<short>(most));
  for (std::size_t i = 0; i < kPlaneValues; i += 16) {
    const __m256i values = _mm256_min_epi16(_mm256_max_epi16(load16(symbols + i), low), high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + i), values);
  }
}

#include "codec/plane_clamp.inl"
#include "codec/plane_transpose.inl"

// Low (or high) bytes of 32 offsets, in order.
inline __m256i bytes_of(const std::int16_t* symbols, __m256i least, bool high) {
  __m256i part[2];
  for (int i = 0; i < 2; ++i) {
    const __m256i offsets = _mm256_sub_epi16(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols + 16 * i)), least);
    part[i] =
        high ? _mm256_srli_epi16(offsets, 8) : _mm256_and_si256(offsets, _mm256_set1_epi16(0xFF));
  }
  return _mm256_permute4x64_epi64(_mm256_packus_epi16(part[0], part[1]), 0xD8);
}

void pack(const std::int16_t* symbols, const PlaneRange& range, std::byte* planes) {
  const __m256i least = _mm256_set1_epi16(range.least);
  for (std::size_t half = 0; half < 2; ++half) {
    for (unsigned first = 0; first < range.width; first += 8) {
      const __m256i bytes = bytes_of(symbols + 32 * half, least, first != 0);
      const unsigned end = range.width - first < 8 ? range.width - first : 8;
      for (unsigned plane = 0; plane < end; ++plane) {
        // The plane's bit becomes each byte's sign; what is moved across bytes lies below it.
        const __m128i places = _mm_cvtsi32_si128(static_cast<int>(7 - plane));
        const int bits = _mm256_movemask_epi8(_mm256_sll_epi16(bytes, places));
        std::memcpy(planes + std::size_t{8} * (first + plane) + 4 * half, &bits, sizeof bits);
      }
    }
  }
}

// 32 bytes whose bit `plane` is that of the mask.
inline __m256i spread(const std::byte* planes, unsigned plane, std::size_t half) {
  int bits = 0;
  std::memcpy(&bits, planes + std::size_t{8} * plane + 4 * half, sizeof bits);
  const __m256i which = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2,
                                         2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201U));
  const __m256i spread_bits = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), which);
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread_bits, bit), bit);
  return _mm256_and_si256(set, _mm256_set1_epi8(static_cast<char>(1U << plane % 8)));
}

inline void unpack(const std::byte* planes, const PlaneRange& range, std::int16_t* low_out,
                   std::int16_t* high_out) {
  const __m256i least = _mm256_set1_epi16(range.least);
  for (std::size_t half = 0; half < 2; ++half) {
    __m256i low = _mm256_setzero_si256();
    __m256i high = _mm256_setzero_si256();
    const unsigned low_end = range.width < 8 ? range.width : 8;
    for (unsigned plane = 0; plane < low_end; ++plane) {
      low = _mm256_or_si256(low, spread(planes, plane, half));
    }
    for (unsigned plane = 8; plane < range.width; ++plane) {
      high = _mm256_or_si256(high, spread(planes, plane, half));
    }
    for (int i = 0; i < 2; ++i) {
      const __m128i low_half =
          i == 0 ? _mm256_castsi256_si128(low) : _mm256_extracti128_si256(low, 1);
      const __m128i high_half =
          i == 0 ? _mm256_castsi256_si128(high) : _mm256_extracti128_si256(high, 1);
      const __m256i offsets = _mm256_or_si256(
          _mm256_cvtepu8_epi16(low_half), _mm256_slli_epi16(_mm256_cvtepu8_epi16(high_half), 8));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>((half == 0 ? low_out : high_out) + 16 * i),
                          _mm256_add_epi16(offsets, least));
    }
  }
}

#include "codec/plane_blocks.inl"

}  // namespace

const PlaneKernels kPlaneAvx2{"avx2", clamp, pack, unpack_blocks, transpose};

}  // namespace mzcache::codec
