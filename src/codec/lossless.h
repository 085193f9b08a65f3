// Codecs that change nothing: zstd, lz4, and zstd after the low and the high bytes of the values
// were separated (signs and exponents repeat, fractions do not). K and V are one stream each.
//
// Payload: u32 bytes of K's stream, u32 bytes of V's, the streams. A stream as long as its values
// is those values, uncompressed. Separated bytes are two zstd frames, one after the other.
//
// Stateless and thread-safe; the libraries work in scratch and allocate nothing.
#pragma once

#include "codec/framed_codec.h"

namespace mzcache::codec {

class LosslessCodec final : public FramedCodec {
 public:
  enum class Method : std::uint8_t { kZstd, kLz4, kSplitZstd };
  explicit LosslessCodec(Method method);

  struct StreamBytes {
    std::uint64_t k = 0;
    std::uint64_t v = 0;
  };
  // Of a chunk that one of these codecs encoded; both as long as their values where it is raw.
  [[nodiscard]] static StreamBytes stream_bytes(std::span<const std::byte> encoded) noexcept;

  [[nodiscard]] bool lossless() const noexcept override { return true; }
  // As on real keys and values; plans begin with it.
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
  [[nodiscard]] std::uint64_t compress(std::span<const std::byte> from, std::span<std::byte> to,
                                       std::span<std::byte> state) const;
  [[nodiscard]] bool decompress(std::span<const std::byte> from, std::span<std::byte> to,
                                std::span<std::byte> state) const;
  [[nodiscard]] std::uint64_t state_bytes(std::uint64_t stream_bytes) const noexcept;

  Method method_;
};

}  // namespace mzcache::codec
