// CacheGen's quantiser as LMCache implements it, for comparison: each token of K and of V over its
// largest magnitude, in 32 levels in the first layers and 16 after them. Keys stay rotated. It
// saves more than 80 % and halves a model's ability to look things up.
//
// LMCache codes the symbols with tables counted per channel; here they are coded by rans.h with a
// table class and an offset per channel, which costs about as much as counted tables shared by a
// whole context do.
//
// Payload: u32 K escapes, V escapes, K words, V words; u16 FP16 scales of K's tokens, of V's;
// classes and offsets as in `entropy` without a profile; the streams. A chunk with Inf or NaN, or
// one that would not come back the same in a second cycle, is kept raw.
//
// Stateless and thread-safe.
#pragma once

#include "codec/framed_codec.h"
#include "codec/simd_variants.h"

namespace mzcache::codec {

class CacheGenCodec final : public FramedCodec {
 public:
  explicit CacheGenCodec(const SimdVariant& simd = codec::simd())
      : FramedCodec("cachegen", CodecId::kCacheGen, 2), simd_(simd) {}

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
  const SimdVariant& simd_;
};

}  // namespace mzcache::codec
