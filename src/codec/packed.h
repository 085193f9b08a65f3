// Keys and values at a fifth of their size, decoded at the speed of memory: the quantiser of
// channel_quantiser.h, its symbols packed into bit planes per channel and 64 tokens, as wide as
// their range. Where moving a few symbols by a step or two saves a bit of all 64, they are moved.
//
// It needs the model's profile; before there is one, chunks are encoded as q8.
//
// Payload, little-endian:
//   u8 form (0: a chunk encoded with q8 follows, 1), 3 zero bytes
//   form 1: u32 profile id, i8 V's scale exponent per token, raw tokens (raw_tokens.h), then blocks
//   of K [64 tokens][channel] and of V [head][32 dims][64 tokens][dim]. A block is its range (u8,
//   or two: see write_range) and `width` planes of 8 bytes.
//
// Thread-safe.
#pragma once

#include "codec/channel_plan.h"
#include "codec/framed_codec.h"
#include "codec/simd_variants.h"

namespace mzcache::codec {

class PackedCodec final : public FramedCodec, public ProfiledCodec {
 public:
  explicit PackedCodec(const SimdVariant& simd = codec::simd());

  [[nodiscard]] bool lossless() const noexcept override { return false; }
  [[nodiscard]] std::uint64_t typical_bytes(const actors::ChunkLayout& layout,
                                            std::uint32_t token_count) const noexcept override;
  [[nodiscard]] bool wants_profile() const override { return true; }
  void adopt(std::shared_ptr<const KvProfile> profile) const override {
    plans_.adopt(std::move(profile));
  }

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
  RopeTables ropes_;
  mutable PlanHolder plans_;
};

}  // namespace mzcache::codec
