#include "sim/sim_codec.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "sim/sim_model.h"

namespace mzcache::sim {
namespace {

std::uint64_t row_bytes(const actors::ChunkLayout& layout) {
  return layout.bytes() / layout.tokens;
}

constexpr std::uint64_t kSeedBytes = 8;

actors::Nanoseconds time_of(std::uint64_t bytes, double bytes_per_s) {
  return actors::Nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(bytes) / bytes_per_s * 1e9));
}

}  // namespace

// 17 bytes in 32: what 8 bits a value in groups of 64 take. What the seed does not fill is padding.
std::uint64_t SimCodec::encoded_row_in_memory(std::uint64_t row) noexcept { return row * 17 / 32; }

std::uint64_t SimCodec::encoded_row(std::uint64_t row) const noexcept {
  if (!for_storage()) return encoded_row_in_memory(row);
  const auto left = static_cast<std::uint64_t>(machine_.stored_share * static_cast<double>(row));
  return std::max(kSeedBytes, left);
}

std::uint64_t SimCodec::bound(const actors::ChunkLayout& layout,
                              std::uint32_t token_count) const noexcept {
  return 8 + token_count * encoded_row(row_bytes(layout));
}

Result<std::uint64_t> SimCodec::encode(const actors::ChunkView& chunk, std::span<std::byte> out,
                                       std::span<std::byte>) const {
  const std::uint64_t row = row_bytes(*chunk.layout);
  const std::uint64_t size = bound(*chunk.layout, chunk.token_count);
  dispatcher_.charge(time_of(chunk.layout->bytes(), for_storage()
                                                        ? machine_.storage_encode_bytes_per_s
                                                        : machine_.encode_bytes_per_s));
  if (for_storage() && machine_.encode_error > 0 &&
      std::uniform_real_distribution<>(0, 1)(dispatcher_.random()) < machine_.encode_error) {
    return Error{ErrorCode::kInternal, 0, "encode", "failed by chance"};
  }
  if (out.size() < size) return Error{ErrorCode::kBadArgument, 0, "encode", "no room"};
  if (!machine_.content) return size;
  std::memset(out.data(), 0, size);
  const std::uint64_t first = mark(chunk.token_count);
  std::memcpy(out.data(), &first, 8);
  for (std::uint32_t token = 0; token < chunk.token_count; ++token) {
    const auto bytes = chunk.bytes.subspan(token * row, row);
    if (!row_matches(bytes)) return Error{ErrorCode::kInternal, 0, "encode", "a row is damaged"};
    const std::uint64_t seed = row_seed(bytes);
    std::memcpy(out.data() + 8 + token * encoded_row(row), &seed, 8);
  }
  return size;
}

Result<void> SimCodec::decode(std::span<const std::byte> encoded,
                              const actors::MutableChunkView& chunk, std::span<std::byte>) const {
  const std::uint64_t row = row_bytes(*chunk.layout);
  const actors::Nanoseconds time =
      time_of(chunk.layout->bytes(),
              for_storage() ? machine_.storage_decode_bytes_per_s : machine_.decode_bytes_per_s);
  dispatcher_.charge(cores_.run(dispatcher_.now(), time, machine_.contention.decode));
  if (!machine_.content) return {};
  if (encoded.size() < bound(*chunk.layout, chunk.token_count)) {
    return Error{ErrorCode::kBadFormat, 0, "decode", "too short"};
  }
  std::uint64_t first = 0;
  std::memcpy(&first, encoded.data(), 8);
  if (first != mark(chunk.token_count)) {
    return Error{ErrorCode::kBadFormat, 0, "decode", "of another codec, or of other tokens"};
  }
  for (std::uint32_t token = 0; token < chunk.token_count; ++token) {
    write_row(chunk.bytes.subspan(token * row, row), seed_at(encoded, encoded_row(row), token));
  }
  return {};
}

std::span<const std::byte> SimCodec::in_place(std::span<const std::byte> encoded,
                                              const actors::ChunkLayout& layout,
                                              std::uint32_t token_count) const noexcept {
  if (for_storage() || token_count != layout.tokens) return {};
  return encoded.first(bound(layout, token_count));
}

std::uint64_t SimCodec::encoded_seed(std::span<const std::byte> encoded,
                                     const actors::ChunkLayout& layout,
                                     std::uint32_t token) noexcept {
  return seed_at(encoded, encoded_row_in_memory(row_bytes(layout)), token);
}

std::uint64_t SimCodec::seed_at(std::span<const std::byte> encoded, std::uint64_t row_left,
                                std::uint32_t token) noexcept {
  return row_seed(encoded.subspan(8 + token * row_left, kSeedBytes));
}

}  // namespace mzcache::sim
