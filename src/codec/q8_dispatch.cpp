#include "codec/q8_kernels.h"

namespace mzcache::codec {
namespace {

#if defined(__x86_64__)
bool has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
}
bool has_avx512() noexcept {
  return has_avx2() && __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}
#endif

}  // namespace

std::size_t q8_kernel_variants(const Q8Kernels** out) noexcept {
  std::size_t count = 0;
  out[count++] = &kQ8Scalar;
#if defined(__x86_64__)
  if (has_avx2()) out[count++] = &kQ8Avx2;
  if (has_avx512()) out[count++] = &kQ8Avx512;
#elif defined(__aarch64__)
  out[count++] = &kQ8Neon;
#endif
  return count;
}

const Q8Kernels& q8_kernels() noexcept {
  static const Q8Kernels* const fastest = [] {
    const Q8Kernels* variants[4] = {};
    return variants[q8_kernel_variants(variants) - 1];
  }();
  return *fastest;
}

}  // namespace mzcache::codec
