// q8 with AVX2 and F16C.
#include <immintrin.h>

#include <cstring>

#include "codec/q8_kernels.h"

namespace mzcache::codec {
namespace {

struct Simd {
  static constexpr std::uint32_t kWidth = 8;
  using Float = __m256;
  using Int = __m256i;
  struct Flags {
    __m256i codes = _mm256_setzero_si256();
    __m256i changes = _mm256_setzero_si256();
  };

  static Float set1(float value) { return _mm256_set1_ps(value); }
  static Float load(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static Float load_one(const std::byte* from) {
    short half = 0;
    std::memcpy(&half, from, sizeof half);
    return _mm256_cvtph_ps(_mm_set1_epi16(half));
  }
  static __m128i to_half(Float value) { return _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT); }
  static void store(std::byte* to, Float value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), to_half(value));
  }
  static void stream(std::byte* to, Float value) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), to_half(value));
  }
  static void store_one(std::byte* to, Float value) {
    const int half = _mm_extract_epi16(to_half(value), 0);
    std::memcpy(to, &half, 2);
  }
  static Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
  static Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
  static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static Float min(Float a, Float b) { return _mm256_min_ps(a, b); }
  static Float max(Float a, Float b) { return _mm256_max_ps(a, b); }
  static Float magnitude(Float a) { return _mm256_andnot_ps(set1(-0.0F), a); }
  static Float less_magnitude(Float a, Float b, Float if_less, Float otherwise) {
    return _mm256_blendv_ps(otherwise, if_less,
                            _mm256_cmp_ps(magnitude(a), magnitude(b), _CMP_LT_OQ));
  }
  static Float inverse(float top, Float range) {
    const Float zero = _mm256_cmp_ps(range, _mm256_setzero_ps(), _CMP_EQ_OQ);
    return _mm256_andnot_ps(zero, _mm256_div_ps(set1(top), range));
  }
  static Float reduce_min(Float a) {
    a = min(a, _mm256_permute2f128_ps(a, a, 1));
    a = min(a, _mm256_permute_ps(a, 0x4E));
    return min(a, _mm256_permute_ps(a, 0xB1));
  }
  static Float reduce_max(Float a) {
    a = max(a, _mm256_permute2f128_ps(a, a, 1));
    a = max(a, _mm256_permute_ps(a, 0x4E));
    return max(a, _mm256_permute_ps(a, 0xB1));
  }
  static Int round(Float value) { return _mm256_cvtps_epi32(value); }
  static Float to_float(Int code) { return _mm256_cvtepi32_ps(code); }
  static Float through_half(Float value) { return _mm256_cvtph_ps(to_half(value)); }
  static Float codes_load(const std::byte* from) {
    return to_float(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  }
  static void codes_store_row(std::byte* to, const Int* codes) {
    const __m256i words = _mm256_packus_epi16(_mm256_packs_epi32(codes[0], codes[1]),
                                              _mm256_packs_epi32(codes[2], codes[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(words, order));
  }
  static bool all_wide(Float range, Float far) {
    const Float least = max(mul(magnitude(far), set1(0.5F)), set1(0x1p-13F));
    return _mm256_movemask_ps(_mm256_cmp_ps(magnitude(range), least, _CMP_GE_OQ)) == 0xFF;
  }
  // Inf and NaN convert to INT_MIN, which has bits above the code's eight.
  static void flag(Flags& flags, Float, Int code) {
    flags.codes = _mm256_or_si256(flags.codes, code);
  }
  static void flag_change(Flags& flags, Int code, Int again) {
    flags.changes = _mm256_or_si256(flags.changes, _mm256_xor_si256(code, again));
  }
  static bool flagged(const Flags& flags) {
    const Int high = _mm256_andnot_si256(_mm256_set1_epi32(0xFF), flags.codes);
    const Int any = _mm256_or_si256(high, flags.changes);
    return _mm256_testz_si256(any, any) == 0;
  }
};

#include "codec/q8_simd.inl"

void fence() { _mm_sfence(); }

}  // namespace

const Q8Kernels kQ8Avx2{"avx2", encode_lanes, decode_lanes, encode_rows, decode_rows, fence};

}  // namespace mzcache::codec
