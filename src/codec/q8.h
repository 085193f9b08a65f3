// FlexGen's 8-bit group-wise quantisation as the paper uses it (§5): 46.9 % saved, one byte per
// value and two FP16 parameters per group of 64. The payload is the grouped form of
// group_quantiser.h. A chunk with Inf or NaN among its valid values, or with a group that has no
// stable code, is kept raw (PayloadMode::kRaw): bound() allows for that, typical_bytes() does not.
//
// Stateless and thread-safe; no scratch.
#pragma once

#include "actors/ports.h"
#include "codec/q8_kernels.h"

namespace mzcache::codec {

class Q8Codec final : public actors::KvCodec {
 public:
  Q8Codec() noexcept : Q8Codec(q8_kernels()) {}
  // With a given kernel variant; for tests and benchmarks.
  explicit Q8Codec(const Q8Kernels& kernels) noexcept : kernels_(&kernels) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "q8"; }
  [[nodiscard]] std::uint32_t version() const noexcept override { return 1; }
  [[nodiscard]] bool lossless() const noexcept override { return false; }
  [[nodiscard]] std::uint64_t bound(const actors::ChunkLayout& layout,
                                    std::uint32_t token_count) const noexcept override;
  [[nodiscard]] std::uint64_t typical_bytes(const actors::ChunkLayout& layout,
                                            std::uint32_t token_count) const noexcept override;
  [[nodiscard]] std::uint64_t scratch_bytes(
      const actors::ChunkLayout& layout) const noexcept override;
  // `out` of typical_bytes() suffices unless the chunk must be kept raw.
  [[nodiscard]] Result<std::uint64_t> encode(const actors::ChunkView& chunk,
                                             std::span<std::byte> out,
                                             std::span<std::byte> scratch) const override;
  [[nodiscard]] Result<void> decode(std::span<const std::byte> encoded,
                                    const actors::MutableChunkView& chunk,
                                    std::span<std::byte> scratch) const override;
  [[nodiscard]] std::span<const std::byte> in_place(
      std::span<const std::byte> encoded, const actors::ChunkLayout& layout,
      std::uint32_t token_count) const noexcept override;

 private:
  const Q8Kernels* kernels_;
};

}  // namespace mzcache::codec
