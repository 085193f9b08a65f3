#include "codec/q8_kernels.h"
#include "codec/simd_variants.h"

namespace mzcache::codec {

std::size_t q8_kernel_variants(const Q8Kernels** out) noexcept {
  const SimdVariant* variants[kSimdVariantsMax] = {};
  const std::size_t count = simd_variants(variants);
  for (std::size_t i = 0; i < count; ++i) out[i] = variants[i]->groups;
  return count;
}

const Q8Kernels& q8_kernels() noexcept { return *simd().groups; }

}  // namespace mzcache::codec
