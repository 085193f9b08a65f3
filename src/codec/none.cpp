#include "codec/none.h"

#include "codec/chunk_values.h"
#include "codec/encoded_header.h"

namespace mzcache::codec {

std::uint64_t NoneCodec::bound(const actors::ChunkLayout& layout,
                               std::uint32_t token_count) const noexcept {
  return kHeaderBytes + valid_bytes(layout, token_count);
}

std::uint64_t NoneCodec::scratch_bytes(const actors::ChunkLayout&) const noexcept { return 0; }

Result<std::uint64_t> NoneCodec::encode(const actors::ChunkView& chunk, std::span<std::byte> out,
                                        std::span<std::byte>) const {
  if (auto ok = check_view(name(), chunk.layout, chunk.token_count, chunk.bytes.size()); !ok) {
    return ok.error();
  }
  const std::uint64_t need = bound(*chunk.layout, chunk.token_count);
  if (out.size() < need) return out_too_small(name(), out.size(), need);
  write_header({CodecId::kNone, static_cast<std::uint16_t>(version()), PayloadMode::kRaw,
                *chunk.layout, chunk.token_count, need - kHeaderBytes},
               out.data());
  pack_valid(*chunk.layout, chunk.token_count, chunk.bytes.data(), out.data() + kHeaderBytes);
  return need;
}

Result<void> NoneCodec::decode(std::span<const std::byte> encoded,
                               const actors::MutableChunkView& chunk, std::span<std::byte>) const {
  if (auto ok = check_view(name(), chunk.layout, chunk.token_count, chunk.bytes.size()); !ok) {
    return ok;
  }
  const auto mode =
      read_mode(name(), encoded, CodecId::kNone, static_cast<std::uint16_t>(version()),
                *chunk.layout, chunk.token_count);
  if (!mode) return mode.error();
  if (*mode != PayloadMode::kRaw) {
    return Error{ErrorCode::kBadFormat, 0, "decode none chunk", "header: mode is 1, expected 0"};
  }
  const std::uint64_t payload = valid_bytes(*chunk.layout, chunk.token_count);
  if (auto ok = check_payload(name(), encoded, payload); !ok) return ok;
  unpack_valid(*chunk.layout, chunk.token_count, encoded.data() + kHeaderBytes, chunk.bytes.data());
  return {};
}

}  // namespace mzcache::codec
