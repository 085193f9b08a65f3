#include "codec/raw_tokens.h"

#include <algorithm>

namespace mzcache::codec {
namespace {

std::uint16_t token_at(std::span<const std::byte> tokens, std::size_t index) {
  std::uint16_t token = 0;
  std::memcpy(&token, tokens.data() + 2 * index, sizeof token);
  return token;
}

}  // namespace

void put_raw_tokens(ByteWriter& out, const ChannelQuantiser& quantiser,
                    const ChunkGeometry& geometry, const QuantiserWork& work,
                    const std::byte* chunk) {
  for (const bool values : {false, true}) {
    const auto flags = (values ? work.v_raw : work.k_raw).first(geometry.token_count);
    out.put(static_cast<std::uint16_t>(std::count(flags.begin(), flags.end(), 1)));
    for (std::size_t token = 0; token < flags.size(); ++token) {
      if (flags[token] != 0) out.put(static_cast<std::uint16_t>(token));
    }
    for (std::uint32_t token = 0; token < flags.size(); ++token) {
      if (flags[token] == 0) continue;
      const auto row = out.take(std::uint64_t{geometry.width} * 2);
      if (!row.empty()) quantiser.copy_raw(chunk, values, token, row.data());
    }
  }
}

bool get_raw_tokens(ByteReader& in, const ChunkGeometry& geometry, RawTokens& raw) {
  for (unsigned half = 0; half < 2; ++half) {
    const auto count = in.get<std::uint16_t>();
    raw.tokens[half] = in.take(std::uint64_t{count} * 2);
    raw.rows[half] = in.take(std::uint64_t{count} * geometry.width * 2);
    if (!in.ok()) return false;
    for (std::size_t i = 0; i < count; ++i) {
      if (token_at(raw.tokens[half], i) >= geometry.token_count) return false;
    }
  }
  return true;
}

void restore_raw_tokens(const RawTokens& raw, const ChannelQuantiser& quantiser,
                        const ChunkGeometry& geometry, std::byte* chunk) {
  for (unsigned half = 0; half < 2; ++half) {
    const std::byte* row = raw.rows[half].data();
    for (std::size_t i = 0; i < raw.tokens[half].size() / 2; ++i) {
      quantiser.put_raw(chunk, half == 1, token_at(raw.tokens[half], i), row);
      row += std::size_t{geometry.width} * 2;
    }
  }
}

}  // namespace mzcache::codec
