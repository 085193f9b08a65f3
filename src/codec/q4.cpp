#include "codec/q4.h"

#include <cstring>

#include "codec/group_quantiser.h"

namespace mzcache::codec {
namespace {

constexpr float kTop = 15.0F;
constexpr std::size_t kStep = 8;  // codes moved at once

// 4 bytes of 2 codes each from 8 codes, and back.
std::uint32_t join(std::uint64_t codes) noexcept {
  std::uint64_t pairs = (codes | codes >> 4) & 0x00FF00FF00FF00FFU;
  pairs = (pairs | pairs >> 8) & 0x0000FFFF0000FFFFU;
  return static_cast<std::uint32_t>(pairs | pairs >> 16);
}
std::uint64_t part(std::uint32_t joined) noexcept {
  std::uint64_t pairs = joined;
  pairs = (pairs | pairs << 16) & 0x0000FFFF0000FFFFU;
  pairs = (pairs | pairs << 8) & 0x00FF00FF00FF00FFU;
  return (pairs | pairs << 4) & 0x0F0F0F0F0F0F0F0FU;
}

// Codes after the last whole step: the byte of an odd last code has zero in its high half.
void join_codes(const std::byte* codes, std::uint64_t count, std::byte* out) noexcept {
  std::uint64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, codes + i, sizeof eight);
    const std::uint32_t four = join(eight);
    std::memcpy(out + i / 2, &four, sizeof four);
  }
  for (; i < count; i += 2) {
    out[i / 2] = codes[i] | (i + 1 < count ? codes[i + 1] << 4 : std::byte{0});
  }
}

void part_codes(const std::byte* joined, std::uint64_t count, std::byte* codes) noexcept {
  std::uint64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    std::uint32_t four = 0;
    std::memcpy(&four, joined + i / 2, sizeof four);
    const std::uint64_t eight = part(four);
    std::memcpy(codes + i, &eight, sizeof eight);
  }
  for (; i < count; ++i) {
    codes[i] = (i % 2 == 0 ? joined[i / 2] : joined[i / 2] >> 4) & std::byte{15};
  }
}

}  // namespace

std::uint64_t Q4Codec::typical_bytes(const actors::ChunkLayout& layout,
                                     std::uint32_t token_count) const noexcept {
  const GroupedSize size = grouped_size(layout, token_count);
  return std::min(bound(layout, token_count),
                  kHeaderBytes + size.parameter_bytes + (size.code_bytes + 1) / 2);
}

std::uint64_t Q4Codec::work_bytes(const actors::ChunkLayout& layout) const noexcept {
  return grouped_size(layout, layout.tokens).total();
}

std::optional<std::uint64_t> Q4Codec::encode_payload(const actors::ChunkView& chunk,
                                                     std::span<std::byte> out,
                                                     std::span<std::byte> work) const {
  const GroupedSize size = grouped_size(*chunk.layout, chunk.token_count);
  const std::uint64_t bytes = size.parameter_bytes + (size.code_bytes + 1) / 2;
  if (bytes >= out.size()) return std::nullopt;
  if (!encode_groups(*kernels_, kTop, chunk, work.data())) return std::nullopt;
  std::memcpy(out.data(), work.data(), size.parameter_bytes);
  join_codes(work.data() + size.parameter_bytes, size.code_bytes,
             out.data() + size.parameter_bytes);
  return bytes;
}

Result<void> Q4Codec::decode_payload(std::span<const std::byte> payload,
                                     const actors::MutableChunkView& chunk,
                                     std::span<std::byte> work) const {
  const GroupedSize size = grouped_size(*chunk.layout, chunk.token_count);
  const std::uint64_t bytes = size.parameter_bytes + (size.code_bytes + 1) / 2;
  if (payload.size() != bytes) {
    return bad_payload("payload: " + std::to_string(payload.size()) + " bytes, expected " +
                       std::to_string(bytes));
  }
  if (auto ok = check_parameters(name(), payload.data(), size); !ok) return ok;
  std::memcpy(work.data(), payload.data(), size.parameter_bytes);
  part_codes(payload.data() + size.parameter_bytes, size.code_bytes,
             work.data() + size.parameter_bytes);
  decode_groups(*kernels_, kTop, work.data(), chunk);
  return {};
}

}  // namespace mzcache::codec
