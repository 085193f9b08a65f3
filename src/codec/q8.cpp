#include "codec/q8.h"

#include <algorithm>

#include "codec/chunk_values.h"
#include "codec/encoded_header.h"
#include "codec/group_quantiser.h"

namespace mzcache::codec {
namespace {

constexpr float kTop = 255.0F;

}  // namespace

std::uint64_t Q8Codec::bound(const actors::ChunkLayout& layout,
                             std::uint32_t token_count) const noexcept {
  return std::max(kHeaderBytes + valid_bytes(layout, token_count),
                  typical_bytes(layout, token_count));
}

std::uint64_t Q8Codec::typical_bytes(const actors::ChunkLayout& layout,
                                     std::uint32_t token_count) const noexcept {
  return kHeaderBytes + grouped_size(layout, token_count).total();
}

std::uint64_t Q8Codec::scratch_bytes(const actors::ChunkLayout&) const noexcept { return 0; }

Result<std::uint64_t> Q8Codec::encode(const actors::ChunkView& chunk, std::span<std::byte> out,
                                      std::span<std::byte>) const {
  if (auto ok = check_view(name(), chunk.layout, chunk.token_count, chunk.bytes.size()); !ok) {
    return ok.error();
  }
  EncodedHeader header{CodecId::kQ8,
                       static_cast<std::uint16_t>(version()),
                       PayloadMode::kQuantised,
                       *chunk.layout,
                       chunk.token_count,
                       grouped_size(*chunk.layout, chunk.token_count).total()};
  const std::uint64_t need = kHeaderBytes + header.payload_bytes;
  if (out.size() < need) return out_too_small(name(), out.size(), need);
  std::byte* const payload = out.data() + kHeaderBytes;
  if (!encode_groups(*kernels_, kTop, chunk, payload)) {
    header.mode = PayloadMode::kRaw;
    header.payload_bytes = valid_bytes(*chunk.layout, chunk.token_count);
    if (out.size() < kHeaderBytes + header.payload_bytes) {
      return out_too_small(name(), out.size(), kHeaderBytes + header.payload_bytes);
    }
    pack_valid(*chunk.layout, chunk.token_count, chunk.bytes.data(), payload);
  }
  write_header(header, out.data());
  return kHeaderBytes + header.payload_bytes;
}

Result<void> Q8Codec::decode(std::span<const std::byte> encoded,
                             const actors::MutableChunkView& chunk, std::span<std::byte>) const {
  if (auto ok = check_view(name(), chunk.layout, chunk.token_count, chunk.bytes.size()); !ok) {
    return ok;
  }
  const auto mode = read_mode(name(), encoded, CodecId::kQ8, static_cast<std::uint16_t>(version()),
                              *chunk.layout, chunk.token_count);
  if (!mode) return mode.error();
  const std::byte* const payload = encoded.data() + kHeaderBytes;
  if (*mode == PayloadMode::kRaw) {
    if (auto ok = check_payload(name(), encoded, valid_bytes(*chunk.layout, chunk.token_count));
        !ok) {
      return ok;
    }
    unpack_valid(*chunk.layout, chunk.token_count, payload, chunk.bytes.data());
    return {};
  }
  const GroupedSize size = grouped_size(*chunk.layout, chunk.token_count);
  if (auto ok = check_payload(name(), encoded, size.total()); !ok) return ok;
  if (auto ok = check_parameters(name(), payload, size); !ok) return ok;
  decode_groups(*kernels_, kTop, payload, chunk);
  return {};
}

// The grouped form, behind the header. Its parameters are finite: encode() writes no others.
std::span<const std::byte> Q8Codec::in_place(std::span<const std::byte> encoded,
                                             const actors::ChunkLayout& layout,
                                             std::uint32_t token_count) const noexcept {
  if (token_count != layout.tokens || layout.order != actors::ChunkLayout::Order::kTiled) return {};
  const std::uint64_t bytes = grouped_size(layout, token_count).total();
  if (encoded.size() < kHeaderBytes + bytes) return {};
  const auto mode = read_mode(name(), encoded, CodecId::kQ8, static_cast<std::uint16_t>(version()),
                              layout, token_count);
  if (!mode || *mode != PayloadMode::kQuantised) return {};
  return encoded.subspan(kHeaderBytes, bytes);
}

}  // namespace mzcache::codec
