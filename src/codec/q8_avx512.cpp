// q8 with AVX-512 (F, BW, DQ, VL).
#include <immintrin.h>

#include <cstring>

#include "codec/q8_kernels.h"

namespace mzcache::codec {
namespace {

struct Simd {
  static constexpr std::uint32_t kWidth = 16;
  using Float = __m512;
  using Int = __m512i;
  struct Flags {
    __m512i codes = _mm512_setzero_si512();
    __m512i changes = _mm512_setzero_si512();
  };

  static Float set1(float value) { return _mm512_set1_ps(value); }
  static Float load(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static Float load_one(const std::byte* from) {
    short half = 0;
    std::memcpy(&half, from, sizeof half);
    return _mm512_cvtph_ps(_mm256_set1_epi16(half));
  }
  static __m256i to_half(Float value) { return _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT); }
  static void store(std::byte* to, Float value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), to_half(value));
  }
  static void stream(std::byte* to, Float value) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), to_half(value));
  }
  static void store_one(std::byte* to, Float value) {
    const int half = _mm256_extract_epi16(to_half(value), 0);
    std::memcpy(to, &half, 2);
  }
  static Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
  static Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
  static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static Float min(Float a, Float b) { return _mm512_min_ps(a, b); }
  static Float max(Float a, Float b) { return _mm512_max_ps(a, b); }
  static Float less_magnitude(Float a, Float b, Float if_less, Float otherwise) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(a), _mm512_abs_ps(b), _CMP_LT_OQ),
                                otherwise, if_less);
  }
  static Float inverse(float top, Float range) {
    const __mmask16 some = _mm512_cmp_ps_mask(range, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    return _mm512_maskz_div_ps(some, set1(top), range);
  }
  static Float reduce_min(Float a) { return set1(_mm512_reduce_min_ps(a)); }
  static Float reduce_max(Float a) { return set1(_mm512_reduce_max_ps(a)); }
  static Int round(Float value) { return _mm512_cvtps_epi32(value); }
  static Float to_float(Int code) { return _mm512_cvtepi32_ps(code); }
  static Float through_half(Float value) { return _mm512_cvtph_ps(to_half(value)); }
  static Float codes_load(const std::byte* from) {
    return to_float(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  static void codes_store(std::byte* to, Int code) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(code));
  }
  static void codes_store_row(std::byte* to, const Int* codes) {
    for (std::uint32_t i = 0; i < kLanes; i += kWidth) codes_store(to + i, codes[i / kWidth]);
  }
  static bool all_wide(Float range, Float far) {
    const Float least = max(mul(_mm512_abs_ps(far), set1(0.5F)), set1(0x1p-13F));
    return _mm512_cmp_ps_mask(_mm512_abs_ps(range), least, _CMP_GE_OQ) == 0xFFFF;
  }
  // Inf and NaN convert to INT_MIN, which has bits above the code's eight.
  static void flag(Flags& flags, Float, Int code) {
    flags.codes = _mm512_or_si512(flags.codes, code);
  }
  static void flag_change(Flags& flags, Int code, Int again) {
    flags.changes = _mm512_or_si512(flags.changes, _mm512_xor_si512(code, again));
  }
  static bool flagged(const Flags& flags) {
    const Int high = _mm512_andnot_si512(_mm512_set1_epi32(0xFF), flags.codes);
    const Int any = _mm512_or_si512(high, flags.changes);
    return _mm512_test_epi32_mask(any, any) != 0;
  }
};

#include "codec/q8_simd.inl"

void fence() { _mm_sfence(); }

}  // namespace

const Q8Kernels kQ8Avx512{"avx512", encode_lanes, decode_lanes, encode_rows, decode_rows, fence};

}  // namespace mzcache::codec
