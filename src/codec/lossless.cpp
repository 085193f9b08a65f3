#include "codec/lossless.h"

#define ZSTD_STATIC_LINKING_ONLY  // contexts in memory of ours
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "codec/chunk_values.h"

namespace mzcache::codec {
namespace {

constexpr int kLevel = 3;
constexpr std::size_t kSizeBytes = 2 * sizeof(std::uint32_t);

const char* method_name(LosslessCodec::Method method) {
  switch (method) {
    case LosslessCodec::Method::kZstd:
      return "zstd";
    case LosslessCodec::Method::kLz4:
      return "lz4";
    case LosslessCodec::Method::kSplitZstd:
      return "split-zstd";
  }
  return "";
}

CodecId method_id(LosslessCodec::Method method) {
  switch (method) {
    case LosslessCodec::Method::kZstd:
      return CodecId::kZstd;
    case LosslessCodec::Method::kLz4:
      return CodecId::kLz4;
    case LosslessCodec::Method::kSplitZstd:
      return CodecId::kSplitZstd;
  }
  return CodecId::kZstd;
}

// High bytes first, then low ones.
void split(std::span<const std::byte> values, std::byte* out) noexcept {
  const std::size_t count = values.size() / 2;
  for (std::size_t i = 0; i < count; ++i) {
    out[count + i] = values[2 * i];
    out[i] = values[2 * i + 1];
  }
}

void unsplit(const std::byte* parts, std::span<std::byte> values) noexcept {
  const std::size_t count = values.size() / 2;
  for (std::size_t i = 0; i < count; ++i) {
    values[2 * i] = parts[count + i];
    values[2 * i + 1] = parts[i];
  }
}

ZSTD_compressionParameters parameters(std::uint64_t stream_bytes) noexcept {
  return ZSTD_getCParams(kLevel, stream_bytes, 0);
}

}  // namespace

LosslessCodec::LosslessCodec(Method method)
    : FramedCodec(method_name(method), method_id(method), method == Method::kSplitZstd ? 2 : 1),
      method_(method) {}

LosslessCodec::StreamBytes LosslessCodec::stream_bytes(
    std::span<const std::byte> encoded) noexcept {
  const std::uint64_t payload = encoded.size() - kHeaderBytes;
  if (read_payload_mode(encoded) == PayloadMode::kRaw) return {payload / 2, payload / 2};
  std::uint32_t bytes[2] = {};
  std::memcpy(bytes, encoded.data() + kHeaderBytes, kSizeBytes);
  return {bytes[0], bytes[1]};
}

std::uint64_t LosslessCodec::typical_bytes(const actors::ChunkLayout& layout,
                                           std::uint32_t token_count) const noexcept {
  const double share = method_ == Method::kLz4 ? 0.98 : (method_ == Method::kZstd ? 0.91 : 0.84);
  return kHeaderBytes +
         static_cast<std::uint64_t>(static_cast<double>(valid_bytes(layout, token_count)) * share);
}

std::uint64_t LosslessCodec::state_bytes(std::uint64_t stream_bytes) const noexcept {
  if (method_ == Method::kLz4) return static_cast<std::uint64_t>(LZ4_sizeofState());
  return std::max(ZSTD_estimateCCtxSize_usingCParams(parameters(stream_bytes)),
                  ZSTD_estimateDCtxSize());
}

// Packed values, split values, the library's state. Fewer tokens never need more state.
std::uint64_t LosslessCodec::work_bytes(const actors::ChunkLayout& layout) const noexcept {
  const std::uint64_t stream = layout.bytes() / 2;
  const std::uint64_t split_bytes = method_ == Method::kSplitZstd ? stream : 0;
  return actors::align_up(layout.bytes() + split_bytes, 64) + state_bytes(stream);
}

namespace {

// One frame for each part: bytes of all frames, 0 where they have no room. Parts that are unlike
// each other share no statistics then; decoders take frames one after another.
std::size_t compress_frames(std::span<const std::byte> from, std::size_t part_bytes,
                            std::span<std::byte> to, std::span<std::byte> state) noexcept {
  std::size_t written = 0;
  for (std::size_t at = 0; at < from.size(); at += part_bytes) {
    ZSTD_CCtx* const context = ZSTD_initStaticCCtx(state.data(), state.size());
    if (context == nullptr) return 0;
    const std::size_t bytes = ZSTD_compressCCtx(context, to.data() + written, to.size() - written,
                                                from.data() + at, part_bytes, kLevel);
    if (ZSTD_isError(bytes) != 0) return 0;
    written += bytes;
  }
  return written;
}

}  // namespace

// Bytes of the stream; those of `from` where compressing gains nothing, 0 where `to` has no room.
std::uint64_t LosslessCodec::compress(std::span<const std::byte> from, std::span<std::byte> to,
                                      std::span<std::byte> state) const {
  const std::size_t room = std::min(to.size(), from.size() - 1);
  if (method_ == Method::kLz4) {
    const int written =
        LZ4_compress_fast_extState(state.data(), reinterpret_cast<const char*>(from.data()),
                                   reinterpret_cast<char*>(to.data()),
                                   static_cast<int>(from.size()), static_cast<int>(room), 1);
    if (written > 0) return static_cast<std::uint64_t>(written);
  } else {
    const std::size_t parts = method_ == Method::kSplitZstd ? 2 : 1;
    const std::size_t written = compress_frames(from, from.size() / parts, to.first(room), state);
    if (written > 0) return written;
  }
  if (to.size() < from.size()) return 0;
  std::memcpy(to.data(), from.data(), from.size());
  return from.size();
}

bool LosslessCodec::decompress(std::span<const std::byte> from, std::span<std::byte> to,
                               std::span<std::byte> state) const {
  if (from.size() == to.size()) {
    std::memcpy(to.data(), from.data(), to.size());
    return true;
  }
  if (method_ == Method::kLz4) {
    return LZ4_decompress_safe(reinterpret_cast<const char*>(from.data()),
                               reinterpret_cast<char*>(to.data()), static_cast<int>(from.size()),
                               static_cast<int>(to.size())) == static_cast<int>(to.size());
  }
  ZSTD_DCtx* const context = ZSTD_initStaticDCtx(state.data(), state.size());
  return context != nullptr &&
         ZSTD_decompressDCtx(context, to.data(), to.size(), from.data(), from.size()) == to.size();
}

std::optional<std::uint64_t> LosslessCodec::encode_payload(const actors::ChunkView& chunk,
                                                           std::span<std::byte> out,
                                                           std::span<std::byte> work) const {
  const std::uint64_t stream_bytes = valid_bytes(*chunk.layout, chunk.token_count) / 2;
  const auto packed = work.first(2 * stream_bytes);
  const bool split_first = method_ == Method::kSplitZstd;
  const auto parts = work.subspan(chunk.layout->bytes(), split_first ? stream_bytes : 0);
  const auto state = work.last(state_bytes(chunk.layout->bytes() / 2));
  pack_valid(*chunk.layout, chunk.token_count, chunk.bytes.data(), packed.data());
  std::uint64_t at = kSizeBytes;
  for (unsigned half = 0; half < 2; ++half) {
    auto values = std::span<const std::byte>(packed).subspan(half * stream_bytes, stream_bytes);
    if (split_first) {
      split(values, parts.data());
      values = parts;
    }
    if (out.size() < at) return std::nullopt;
    const auto bytes = static_cast<std::uint32_t>(compress(values, out.subspan(at), state));
    if (bytes == 0) return std::nullopt;
    std::memcpy(out.data() + half * sizeof bytes, &bytes, sizeof bytes);
    at += bytes;
  }
  return at < 2 * stream_bytes ? std::optional(at) : std::nullopt;
}

Result<void> LosslessCodec::decode_payload(std::span<const std::byte> payload,
                                           const actors::MutableChunkView& chunk,
                                           std::span<std::byte> work) const {
  if (payload.size() < kSizeBytes) return bad_payload("payload: no room for its sizes");
  std::uint32_t bytes[2] = {};
  std::memcpy(bytes, payload.data(), kSizeBytes);
  if (kSizeBytes + std::uint64_t{bytes[0]} + bytes[1] != payload.size()) {
    return bad_payload("payload: its streams' sizes are not its own");
  }
  const std::uint64_t stream_bytes = valid_bytes(*chunk.layout, chunk.token_count) / 2;
  const auto packed = work.first(2 * stream_bytes);
  const bool split_first = method_ == Method::kSplitZstd;
  const auto parts = work.subspan(chunk.layout->bytes(), split_first ? stream_bytes : 0);
  const auto state = work.last(state_bytes(chunk.layout->bytes() / 2));
  std::uint64_t at = kSizeBytes;
  for (unsigned half = 0; half < 2; ++half) {
    const auto values = packed.subspan(half * stream_bytes, stream_bytes);
    if (!decompress(payload.subspan(at, bytes[half]), split_first ? parts : values, state)) {
      return bad_payload(half == 0 ? "K's stream is damaged" : "V's stream is damaged");
    }
    if (split_first) unsplit(parts.data(), values);
    at += bytes[half];
  }
  unpack_valid(*chunk.layout, chunk.token_count, packed.data(), chunk.bytes.data());
  return {};
}

}  // namespace mzcache::codec
