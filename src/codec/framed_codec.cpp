#include "codec/framed_codec.h"

#include <algorithm>

#include "codec/chunk_values.h"

namespace mzcache::codec {
namespace {

constexpr std::uint64_t kAlignment = 64;

}  // namespace

std::uint64_t FramedCodec::bound(const actors::ChunkLayout& layout,
                                 std::uint32_t token_count) const noexcept {
  return kHeaderBytes + valid_bytes(layout, token_count);
}

std::uint64_t FramedCodec::scratch_bytes(const actors::ChunkLayout& layout) const noexcept {
  const std::uint64_t bytes = work_bytes(layout);
  return bytes == 0 ? 0 : bytes + kAlignment;
}

Result<std::span<std::byte>> FramedCodec::aligned_work(const actors::ChunkLayout& layout,
                                                       std::span<std::byte> scratch) const {
  const std::uint64_t need = scratch_bytes(layout);
  if (scratch.size() < need) {
    return Error{ErrorCode::kBadArgument, 0, name_ + " codec",
                 "scratch: " + std::to_string(scratch.size()) + " bytes, " + std::to_string(need) +
                     " needed"};
  }
  if (need == 0) return std::span<std::byte>{};
  const auto at = reinterpret_cast<std::uintptr_t>(scratch.data());
  return scratch.subspan((kAlignment - at % kAlignment) % kAlignment, need - kAlignment);
}

Result<std::uint64_t> FramedCodec::encode(const actors::ChunkView& chunk, std::span<std::byte> out,
                                          std::span<std::byte> scratch) const {
  if (auto ok = check_view(name_, chunk.layout, chunk.token_count, chunk.bytes.size()); !ok) {
    return ok.error();
  }
  const auto work = aligned_work(*chunk.layout, scratch);
  if (!work) return work.error();
  const std::uint64_t need = bound(*chunk.layout, chunk.token_count);
  if (out.size() < kHeaderBytes) return out_too_small(name_, out.size(), need);
  EncodedHeader header{id_,           version_,          PayloadMode::kRaw,
                       *chunk.layout, chunk.token_count, need - kHeaderBytes};
  // What fits a smaller output is what a larger one would get, too.
  const auto payload = out.subspan(kHeaderBytes, std::min(out.size(), need) - kHeaderBytes);
  if (const auto bytes = encode_payload(chunk, payload, *work); bytes) {
    header.mode = PayloadMode::kQuantised;
    header.payload_bytes = *bytes;
  } else {
    if (out.size() < need) return out_too_small(name_, out.size(), need);
    pack_valid(*chunk.layout, chunk.token_count, chunk.bytes.data(), payload.data());
  }
  write_header(header, out.data());
  return kHeaderBytes + header.payload_bytes;
}

Result<void> FramedCodec::decode(std::span<const std::byte> encoded,
                                 const actors::MutableChunkView& chunk,
                                 std::span<std::byte> scratch) const {
  if (auto ok = check_view(name_, chunk.layout, chunk.token_count, chunk.bytes.size()); !ok) {
    return ok;
  }
  const auto work = aligned_work(*chunk.layout, scratch);
  if (!work) return work.error();
  const auto mode = read_mode(name_, encoded, id_, version_, *chunk.layout, chunk.token_count);
  if (!mode) return mode.error();
  const std::uint64_t raw = valid_bytes(*chunk.layout, chunk.token_count);
  const std::uint64_t bytes = *mode == PayloadMode::kRaw ? raw : read_payload_bytes(encoded);
  if (bytes > raw)
    return bad_payload("header: more payload than " + std::to_string(raw) + " bytes");
  if (auto ok = check_payload(name_, encoded, bytes); !ok) return ok;
  const auto payload = encoded.subspan(kHeaderBytes, bytes);
  if (*mode != PayloadMode::kRaw) return decode_payload(payload, chunk, *work);
  unpack_valid(*chunk.layout, chunk.token_count, payload.data(), chunk.bytes.data());
  return {};
}

Error FramedCodec::bad_payload(std::string context) const {
  return {ErrorCode::kBadFormat, 0, "decode " + name_ + " chunk", std::move(context)};
}

}  // namespace mzcache::codec
