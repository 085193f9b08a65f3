// The frame that codecs share: checks of the view and of scratch, the header, and raw chunks where
// a payload would not be smaller or cannot be made. A codec adds what its payload is.
//
// Thread-safe as far as the codec's own functions are.
#pragma once

#include <optional>
#include <string>

#include "actors/ports.h"
#include "codec/encoded_header.h"

namespace mzcache::codec {

class FramedCodec : public actors::KvCodec {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::uint32_t version() const noexcept override { return version_; }
  // No payload is larger than the valid values themselves.
  [[nodiscard]] std::uint64_t bound(const actors::ChunkLayout& layout,
                                    std::uint32_t token_count) const noexcept final;
  [[nodiscard]] std::uint64_t scratch_bytes(const actors::ChunkLayout& layout) const noexcept final;
  [[nodiscard]] Result<std::uint64_t> encode(const actors::ChunkView& chunk,
                                             std::span<std::byte> out,
                                             std::span<std::byte> scratch) const final;
  [[nodiscard]] Result<void> decode(std::span<const std::byte> encoded,
                                    const actors::MutableChunkView& chunk,
                                    std::span<std::byte> scratch) const final;

 protected:
  FramedCodec(std::string name, CodecId id, std::uint16_t version)
      : name_(std::move(name)), id_(id), version_(version) {}

  [[nodiscard]] virtual std::uint64_t work_bytes(
      const actors::ChunkLayout& layout) const noexcept = 0;
  // Bytes written to `out`, which may be smaller than the values; nothing where the chunk is better
  // kept raw or does not fit. `work`
  // is aligned to 64 bytes and has work_bytes().
  [[nodiscard]] virtual std::optional<std::uint64_t> encode_payload(
      const actors::ChunkView& chunk, std::span<std::byte> out,
      std::span<std::byte> work) const = 0;
  // `payload` has exactly the bytes the header names.
  [[nodiscard]] virtual Result<void> decode_payload(std::span<const std::byte> payload,
                                                    const actors::MutableChunkView& chunk,
                                                    std::span<std::byte> work) const = 0;

  [[nodiscard]] Error bad_payload(std::string context) const;

 private:
  [[nodiscard]] Result<std::span<std::byte>> aligned_work(const actors::ChunkLayout& layout,
                                                          std::span<std::byte> scratch) const;

  std::string name_;
  CodecId id_;
  std::uint16_t version_;
};

}  // namespace mzcache::codec
