// The one place that decides which instruction sets the codecs use.
#pragma once

#include <cstddef>

#include "codec/channel_kernels.h"
#include "codec/plane_kernels.h"
#include "codec/q8_kernels.h"
#include "codec/rans.h"

namespace mzcache::codec {

struct SimdVariant {
  const char* name;
  const Q8Kernels* groups;
  const ChannelKernels* channels;
  const RansKernels* rans;
  const PlaneKernels* planes;
};

// The fastest this processor runs; decided once.
[[nodiscard]] const SimdVariant& simd() noexcept;
// All it runs, slowest (the scalar reference) first; for tests and benchmarks. At most 4.
inline constexpr std::size_t kSimdVariantsMax = 4;
std::size_t simd_variants(const SimdVariant** out) noexcept;

}  // namespace mzcache::codec
