// Keys and values at a quarter to a seventh of their size: the quantiser of channel_quantiser.h,
// its symbols entropy-coded (rans.h). Steps and tables come from the model's profile; before there
// is one, K's step is a share of the chunk's own rms, and each channel's offset and table class lie
// in the chunk.
//
// `entropy` saves about 80 %, `entropy:near` 74 % with a quarter of the damage, `entropy:small` 85
// %.
// `entropy:free` never uses a profile.
//
// Payload, little-endian:
//   u8 form (0 without, 1 with a profile)  u8 preset  i16 K's step exponent  u32 profile id
//   u32 K escapes  u32 V escapes  u32 K words  u32 V words
//   form 0: u16 per channel of K (class, offset), u8 per channel of V (class, offset)
//   i8 V's scale exponent per token, raw tokens (raw_tokens.h), i16 escapes of K, of V
//   u32 rANS states of K, of V, u16 words of K, of V
//
// Thread-safe.
#pragma once

#include "codec/channel_plan.h"
#include "codec/framed_codec.h"
#include "codec/simd_variants.h"

namespace mzcache::codec {

class EntropyCodec final : public FramedCodec, public ProfiledCodec {
 public:
  enum class Preset : std::uint8_t { kDefault, kNear, kSmall, kFree };
  explicit EntropyCodec(Preset preset, const SimdVariant& simd = codec::simd());

  [[nodiscard]] bool lossless() const noexcept override { return false; }
  [[nodiscard]] std::uint64_t typical_bytes(const actors::ChunkLayout& layout,
                                            std::uint32_t token_count) const noexcept override;
  [[nodiscard]] bool wants_profile() const override { return preset_ != Preset::kFree; }
  void adopt(std::shared_ptr<const KvProfile> profile) const override {
    if (wants_profile()) plans_.adopt(std::move(profile));
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
  const Preset preset_;
  const SimdVariant& simd_;
  RopeTables ropes_;
  mutable PlanHolder plans_;
};

}  // namespace mzcache::codec
