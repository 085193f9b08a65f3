// Operations as kernels/cpu/run.cl reads them: the same bytes, the same numbers.
#pragma once

#include <array>
#include <cstdint>

namespace mzcache::gpu {

enum class CpuKind : std::uint32_t {
  kEmbed = 0,
  kNorm = 1,
  kRopeStore = 2,
  kAttention = 3,
  kMerge = 4,
  kGate = 5,
  kSoftcap = 6,
  kPack = 7,
  kPackFloats = 8,
  kRow = 9,  // products of floats, by tokens: one, few, many
  kFew = 10,
  kMany = 11,
  kHalfFew = 12,
  kBytesRow = 13,  // products of bytes
  kBytesFew = 14,
  kBytesMany = 15,
  kQueryEnergy = 16,
};

// Orders of packed activations (kernels/cpu/pack.cl).
enum class CpuPack : std::uint32_t { kRow = 0, kPairs = 1, kLanes = 2, kFew = 3, kFloats = 4 };

struct CpuOperation {
  CpuKind kind = CpuKind::kEmbed;
  std::uint32_t items = 0;
  std::array<std::uint32_t, 16> u{};
  std::array<float, 4> f{};
  std::array<std::uint64_t, 8> p{};  // addresses and offsets
};
static_assert(sizeof(CpuOperation) == 152);

}  // namespace mzcache::gpu
