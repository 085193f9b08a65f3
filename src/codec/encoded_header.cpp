#include "codec/encoded_header.h"

#include <array>
#include <string>

namespace mzcache::codec {
namespace {

constexpr std::uint32_t kMagic = 0x564B5A4DU;  // "MZKV"
constexpr std::uint64_t kValuesMax = std::uint64_t{1} << 28;
constexpr std::uint32_t kTileTokens = 32;

void put(std::byte* out, std::uint64_t value, unsigned bytes) noexcept {
  for (unsigned i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((value >> (8 * i)) & 0xFFU);
}

std::uint32_t get(std::span<const std::byte> encoded, unsigned offset, unsigned bytes) noexcept {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) {
    value |= static_cast<std::uint32_t>(encoded[offset + i]) << (8 * i);
  }
  return value;
}

Error bad_view(std::string_view codec, std::string context) {
  return {ErrorCode::kBadArgument, 0, std::string(codec) + " codec", std::move(context)};
}

Error bad_bytes(std::string_view codec, std::string context) {
  return {ErrorCode::kBadFormat, 0, "decode " + std::string(codec) + " chunk", std::move(context)};
}

}  // namespace

Result<void> check_view(std::string_view codec, const actors::ChunkLayout* layout,
                        std::uint32_t token_count, std::uint64_t view_bytes) {
  if (layout == nullptr) return bad_view(codec, "the chunk view names no layout");
  if (layout->kv_heads == 0 || layout->head_dim == 0 || layout->tokens == 0) {
    return bad_view(codec, "layout: kv_heads, head_dim and tokens must be at least 1");
  }
  const std::uint64_t width = std::uint64_t{layout->kv_heads} * layout->head_dim;
  if (width > kValuesMax || width * layout->tokens > kValuesMax) {
    return bad_view(codec, "layout: more than 2^28 values in K or V");
  }
  if (layout->order == actors::ChunkLayout::Order::kTiled && layout->tokens % kTileTokens != 0) {
    return bad_view(codec, "layout: tokens " + std::to_string(layout->tokens) +
                               " is not a multiple of 32, which the tiled order needs");
  }
  if (token_count == 0 || token_count > layout->tokens) {
    return bad_view(codec, "token_count " + std::to_string(token_count) + " is not in 1 … " +
                               std::to_string(layout->tokens));
  }
  if (view_bytes < layout->bytes()) {
    return bad_view(codec, "the chunk view has " + std::to_string(view_bytes) +
                               " bytes, its layout needs " + std::to_string(layout->bytes()));
  }
  return {};
}

void write_header(const EncodedHeader& header, std::byte* out) noexcept {
  put(out, kMagic, 4);
  put(out + 4, static_cast<std::uint64_t>(header.codec), 2);
  put(out + 6, header.version, 2);
  put(out + 8, static_cast<std::uint64_t>(header.mode), 1);
  put(out + 9, static_cast<std::uint64_t>(header.layout.order), 1);
  put(out + 10, 0, 2);
  put(out + 12, header.layout.kv_heads, 4);
  put(out + 16, header.layout.head_dim, 4);
  put(out + 20, header.layout.tokens, 4);
  put(out + 24, header.token_count, 4);
  put(out + 28, header.payload_bytes & 0xFFFFFFFFU, 4);
}

Result<PayloadMode> read_mode(std::string_view codec, std::span<const std::byte> encoded,
                              CodecId id, std::uint16_t version, const actors::ChunkLayout& layout,
                              std::uint32_t token_count) {
  if (encoded.size() < kHeaderBytes) {
    return bad_bytes(codec, "header: " + std::to_string(encoded.size()) + " of 32 bytes");
  }
  struct Field {
    const char* name;
    unsigned offset;
    unsigned bytes;
    std::uint32_t expected;
  };
  const std::array<Field, 9> fields{{
      {"magic", 0, 4, kMagic},
      {"codec", 4, 2, static_cast<std::uint32_t>(id)},
      {"version", 6, 2, version},
      {"order", 9, 1, static_cast<std::uint32_t>(layout.order)},
      {"reserved", 10, 2, 0},
      {"kv_heads", 12, 4, layout.kv_heads},
      {"head_dim", 16, 4, layout.head_dim},
      {"tokens", 20, 4, layout.tokens},
      {"token_count", 24, 4, token_count},
  }};
  for (const Field& field : fields) {
    const std::uint32_t found = get(encoded, field.offset, field.bytes);
    if (found == field.expected) continue;
    return bad_bytes(codec, std::string("header: ") + field.name + " is " + std::to_string(found) +
                                ", expected " + std::to_string(field.expected));
  }
  const std::uint32_t mode = get(encoded, 8, 1);
  if (mode > static_cast<std::uint32_t>(PayloadMode::kQuantised)) {
    return bad_bytes(codec, "header: mode is " + std::to_string(mode) + ", expected 0 or 1");
  }
  return static_cast<PayloadMode>(mode);
}

PayloadMode read_payload_mode(std::span<const std::byte> encoded) noexcept {
  return get(encoded, 8, 1) == 0 ? PayloadMode::kRaw : PayloadMode::kQuantised;
}

std::uint64_t read_payload_bytes(std::span<const std::byte> encoded) noexcept {
  return get(encoded, 28, 4);
}

Result<void> check_payload(std::string_view codec, std::span<const std::byte> encoded,
                           std::uint64_t payload_bytes) {
  if (get(encoded, 28, 4) != (payload_bytes & 0xFFFFFFFFU)) {
    return bad_bytes(codec, "header: payload size is " + std::to_string(get(encoded, 28, 4)) +
                                ", expected " + std::to_string(payload_bytes));
  }
  if (encoded.size() < kHeaderBytes + payload_bytes) {
    return bad_bytes(codec, "payload: " + std::to_string(encoded.size() - kHeaderBytes) + " of " +
                                std::to_string(payload_bytes) + " bytes");
  }
  return {};
}

Error out_too_small(std::string_view codec, std::uint64_t have, std::uint64_t need) {
  return {ErrorCode::kBadArgument, 0, "encode " + std::string(codec) + " chunk",
          "output: " + std::to_string(have) + " bytes, " + std::to_string(need) + " needed"};
}

}  // namespace mzcache::codec
