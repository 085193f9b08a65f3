// The codec that changes nothing: a header and the valid tokens' values. Lossless, stateless and
// thread-safe.
#pragma once

#include "actors/ports.h"

namespace mzcache::codec {

class NoneCodec final : public actors::KvCodec {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "none"; }
  [[nodiscard]] std::uint32_t version() const noexcept override { return 1; }
  [[nodiscard]] bool lossless() const noexcept override { return true; }
  [[nodiscard]] std::uint64_t bound(const actors::ChunkLayout& layout,
                                    std::uint32_t token_count) const noexcept override;
  [[nodiscard]] std::uint64_t scratch_bytes(
      const actors::ChunkLayout& layout) const noexcept override;
  [[nodiscard]] Result<std::uint64_t> encode(const actors::ChunkView& chunk,
                                             std::span<std::byte> out,
                                             std::span<std::byte> scratch) const override;
  [[nodiscard]] Result<void> decode(std::span<const std::byte> encoded,
                                    const actors::MutableChunkView& chunk,
                                    std::span<std::byte> scratch) const override;
};

}  // namespace mzcache::codec
