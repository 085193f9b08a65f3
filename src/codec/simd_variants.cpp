#include "codec/simd_variants.h"

namespace mzcache::codec {
namespace {

constexpr SimdVariant kScalar{"scalar", &kQ8Scalar, &kChannelScalar, &kRansScalar, &kPlaneScalar};
#if defined(__x86_64__)
constexpr SimdVariant kAvx2{"avx2", &kQ8Avx2, &kChannelAvx2, &kRansAvx2, &kPlaneAvx2};
constexpr SimdVariant kAvx512{"avx512", &kQ8Avx512, &kChannelAvx512, &kRansAvx512, &kPlaneAvx512};

bool has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
}
bool has_avx512() noexcept {
  return has_avx2() && __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}
#elif defined(__aarch64__)
// There is no gather, so tables are looked up one lane at a time; planes pack well as they are.
constexpr SimdVariant kNeon{"neon", &kQ8Neon, &kChannelNeon, &kRansScalar, &kPlaneScalar};
#endif

}  // namespace

std::size_t simd_variants(const SimdVariant** out) noexcept {
  std::size_t count = 0;
  out[count++] = &kScalar;
#if defined(__x86_64__)
  if (has_avx2()) out[count++] = &kAvx2;
  if (has_avx512()) out[count++] = &kAvx512;
#elif defined(__aarch64__)
  out[count++] = &kNeon;
#endif
  return count;
}

const SimdVariant& simd() noexcept {
  static const SimdVariant* const fastest = [] {
    const SimdVariant* variants[kSimdVariantsMax] = {};
    return variants[simd_variants(variants) - 1];
  }();
  return *fastest;
}

}  // namespace mzcache::codec
