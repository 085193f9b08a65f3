// FlexGen's group-wise quantisation with 4 bits, for comparison: 71.9 % saved. Groups and
// parameters as in q8 (group_quantiser.h), two codes to a byte, the first in the low half.
//
// Stateless and thread-safe.
#pragma once

#include "codec/framed_codec.h"
#include "codec/q8_kernels.h"

namespace mzcache::codec {

class Q4Codec final : public FramedCodec {
 public:
  Q4Codec() : Q4Codec(q8_kernels()) {}
  explicit Q4Codec(const Q8Kernels& kernels)
      : FramedCodec("q4", CodecId::kQ4, 1), kernels_(&kernels) {}

  [[nodiscard]] bool lossless() const noexcept override { return false; }
  [[nodiscard]] std::uint64_t typical_bytes(const actors::ChunkLayout& layout,
                                            std::uint32_t token_count) const noexcept override;

 protected:
  [[nodiscard]] std::uint64_t work_bytes(const actors::ChunkLayout& layout) const noexcept override;
  [[nodiscard]] std::optional<std::uint64_t> encode_payload(
      const actors::ChunkView& chunk, std::span<std::byte> out,
      std::span<std::byte> work) const override;
  [[nodiscard]] Result<void> decode_payload(std::span<const std::byte> payload,
                                            const actors::MutableChunkView& chunk,
                                            std::span<std::byte> work) const override;

 private:
  const Q8Kernels* kernels_;
};

}  // namespace mzcache::codec
