// The header every encoded chunk starts with, and the checks shared by all codecs.
//
// 32 bytes, little-endian:
//   0 magic "MZKV"   4 codec id u16     6 codec version u16
//   8 mode u8        9 order u8        10 zero u16
//  12 kv_heads u32  16 head_dim u32    20 tokens of the layout u32
//  24 token_count u32                  28 low 32 bits of the payload's size u32
// The payload follows. `order` is the layout the bytes were made from: encoded bytes are canonical
// per layout order, and a chunk decodes only into the order it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "actors/ports.h"
#include "mzcache/errors.h"

namespace mzcache::codec {

inline constexpr std::uint64_t kHeaderBytes = 32;

enum class CodecId : std::uint16_t {
  kNone = 0,
  kQ8 = 1,
  kQ4 = 2,
  kZstd = 3,
  kLz4 = 4,
  kSplitZstd = 5,
  kEntropy = 6,
  kPacked = 7,
  kCacheGen = 8,
  kApplication = 0x8000,  // and above, by a hash of the name
};

// What the payload holds: the valid tokens' values as they were, or what the codec makes of them.
enum class PayloadMode : std::uint8_t { kRaw = 0, kQuantised = 1 };

struct EncodedHeader {
  CodecId codec = CodecId::kNone;
  std::uint16_t version = 0;
  PayloadMode mode = PayloadMode::kRaw;
  actors::ChunkLayout layout;
  std::uint32_t token_count = 0;
  std::uint64_t payload_bytes = 0;
};

// kBadArgument where the layout is empty, too large, or the view does not fit it.
[[nodiscard]] Result<void> check_view(std::string_view codec, const actors::ChunkLayout* layout,
                                      std::uint32_t token_count, std::uint64_t view_bytes);

// FP16 bytes of `token_count` tokens, K and V.
[[nodiscard]] constexpr std::uint64_t valid_bytes(const actors::ChunkLayout& layout,
                                                  std::uint32_t token_count) {
  return std::uint64_t{layout.kv_heads} * layout.head_dim * token_count * 2 * 2;
}

// `out` has at least kHeaderBytes.
void write_header(const EncodedHeader& header, std::byte* out) noexcept;

// The mode of an encoded chunk whose header is the one a chunk of this codec, layout and token
// count would have; kBadFormat names the first field that differs. payload_bytes is not checked.
[[nodiscard]] Result<PayloadMode> read_mode(std::string_view codec,
                                            std::span<const std::byte> encoded, CodecId id,
                                            std::uint16_t version,
                                            const actors::ChunkLayout& layout,
                                            std::uint32_t token_count);

// The mode alone, of a chunk just encoded.
[[nodiscard]] PayloadMode read_payload_mode(std::span<const std::byte> encoded) noexcept;

// The payload's size as the header has it; after read_mode(), for payloads below 4 GiB.
[[nodiscard]] std::uint64_t read_payload_bytes(std::span<const std::byte> encoded) noexcept;

// kBadFormat where the payload's size is not `payload_bytes` or the span is too short for it.
// Bytes behind the payload are ignored (storage pads to blocks).
[[nodiscard]] Result<void> check_payload(std::string_view codec, std::span<const std::byte> encoded,
                                         std::uint64_t payload_bytes);

[[nodiscard]] Error out_too_small(std::string_view codec, std::uint64_t have, std::uint64_t need);

}  // namespace mzcache::codec
