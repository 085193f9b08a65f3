// The channel kernels with AVX-512 (F, BW, DQ, VL).
#include <immintrin.h>

#include <cstring>

#include "codec/channel_kernels.h"

namespace mzcache::codec {
namespace {

#include "codec/channel_fold.inl"

struct Simd {
  static constexpr std::uint32_t kWidth = 16;
  static constexpr std::size_t kDoublesBytes = 64;  // of a register
  using Float = __m512;
  using Int = __m512i;
  struct Flags {
    __mmask16 bits = 0;
  };

  static Float set1(float value) { return _mm512_set1_ps(value); }
  static Float load(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static Float load_floats(const float* from) { return _mm512_loadu_ps(from); }
  static __m256i to_half(Float value) { return _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT); }
  static void store(std::byte* to, Float value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), to_half(value));
  }
  static void stream(std::byte* to, Float value) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), to_half(value));
  }
  static Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
  static Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
  static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static Int round(Float value) { return _mm512_cvtps_epi32(value); }
  static Float to_float(Int code) { return _mm512_cvtepi32_ps(code); }
  static Float through_half(Float value) { return _mm512_cvtph_ps(to_half(value)); }
  static Int symbols_load(const std::int16_t* from) {
    return _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static void symbols_store(std::int16_t* to, Int code) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtsepi32_epi16(code));
  }
  // Inf and NaN convert to INT_MIN, which is outside.
  static void flag_outside(Flags& flags, Float, Int code, int most) {
    flags.bits |= _mm512_cmpgt_epi32_mask(code, _mm512_set1_epi32(most));
    flags.bits |= _mm512_cmplt_epi32_mask(code, _mm512_set1_epi32(-most));
  }
  static void flag_change(Flags& flags, Int a, Int b) {
    flags.bits |= _mm512_cmpneq_epi32_mask(a, b);
  }
  static void flag_difference(Flags& flags, Float a, Float b) {
    flags.bits |= _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ);
  }
  static void flag_beyond(Flags& flags, Float a, Float limit) {
    flags.bits |= _mm512_cmp_ps_mask(a, limit, _CMP_NLE_UQ);
  }
  static std::uint32_t bits(const Flags& flags) { return flags.bits; }
  static constexpr std::uint32_t kFold = 8;
  using Partial = __m256;
  static Partial partial(const Float* vectors) {
    const Float sixteen = add(vectors[0], vectors[1]);
    return _mm256_add_ps(_mm512_castps512_ps256(sixteen), _mm512_extractf32x8_ps(sixteen, 1));
  }
  static void add_folded(const Partial* partials, float* sums) { add_folded8(partials, sums); }
  static float sum32(const Float* vectors) {
    const __m256 eight = partial(vectors);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
  }
};

#include "codec/channel_simd.inl"

void fence() { _mm_sfence(); }

}  // namespace

const ChannelKernels kChannelAvx512{"avx512",
                                    quantise_keys,
                                    dequantise_keys,
                                    quantise_values,
                                    dequantise_values,
                                    find_scale,
                                    add_energy,
                                    add_decoded_energy,
                                    turn,
                                    fence};

}  // namespace mzcache::codec
