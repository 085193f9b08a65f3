// The channel kernels with AVX2 and F16C.
#include <immintrin.h>

#include <cstring>

#include "codec/channel_kernels.h"

namespace mzcache::codec {
namespace {

#include "codec/channel_fold.inl"

struct Simd {
  static constexpr std::uint32_t kWidth = 8;
  static constexpr std::size_t kDoublesBytes = 32;  // of a register
  using Float = __m256;
  using Int = __m256i;
  struct Flags {
    __m256i bits = _mm256_setzero_si256();
  };

  static Float set1(float value) { return _mm256_set1_ps(value); }
  static Float load(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static Float load_floats(const float* from) { return _mm256_loadu_ps(from); }
  static __m128i to_half(Float value) { return _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT); }
  static void store(std::byte* to, Float value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), to_half(value));
  }
  static void stream(std::byte* to, Float value) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), to_half(value));
  }
  static Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
  static Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
  static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static Int round(Float value) { return _mm256_cvtps_epi32(value); }
  static Float to_float(Int code) { return _mm256_cvtepi32_ps(code); }
  static Float through_half(Float value) { return _mm256_cvtph_ps(to_half(value)); }
  static Int symbols_load(const std::int16_t* from) {
    return _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void symbols_store(std::int16_t* to, Int code) {
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), words);
  }
  // Inf and NaN convert to INT_MIN, which is outside.
  static void flag_outside(Flags& flags, Float, Int code, int most) {
    const Int high = _mm256_cmpgt_epi32(code, _mm256_set1_epi32(most));
    const Int low = _mm256_cmpgt_epi32(_mm256_set1_epi32(-most), code);
    flags.bits = _mm256_or_si256(flags.bits, _mm256_or_si256(high, low));
  }
  static void flag_change(Flags& flags, Int a, Int b) {
    const Int same = _mm256_cmpeq_epi32(a, b);
    flags.bits = _mm256_or_si256(flags.bits, _mm256_andnot_si256(same, _mm256_set1_epi32(-1)));
  }
  static void flag_difference(Flags& flags, Float a, Float b) {
    flags.bits = _mm256_or_si256(flags.bits, _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_NEQ_UQ)));
  }
  static void flag_beyond(Flags& flags, Float a, Float limit) {
    flags.bits =
        _mm256_or_si256(flags.bits, _mm256_castps_si256(_mm256_cmp_ps(a, limit, _CMP_NLE_UQ)));
  }
  static std::uint32_t bits(const Flags& flags) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(flags.bits)));
  }
  static constexpr std::uint32_t kFold = 8;
  using Partial = __m256;
  static Partial partial(const Float* vectors) {
    return add(add(vectors[0], vectors[2]), add(vectors[1], vectors[3]));
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

const ChannelKernels kChannelAvx2{"avx2",
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
