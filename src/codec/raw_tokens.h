// The tokens of a chunk that are kept as they are, in a payload: for K, then for V, a u16 count,
// the tokens (u16, ascending), and their rows of FP16.
#pragma once

#include "codec/byte_stream.h"
#include "codec/channel_quantiser.h"

namespace mzcache::codec {

void put_raw_tokens(ByteWriter& out, const ChannelQuantiser& quantiser,
                    const ChunkGeometry& geometry, const QuantiserWork& work,
                    const std::byte* chunk);

struct RawTokens {
  std::span<const std::byte> tokens[2];  // u16
  std::span<const std::byte> rows[2];
};
// False where they are damaged; then also `in` has failed, or a token is not there.
[[nodiscard]] bool get_raw_tokens(ByteReader& in, const ChunkGeometry& geometry, RawTokens& raw);
void restore_raw_tokens(const RawTokens& raw, const ChannelQuantiser& quantiser,
                        const ChunkGeometry& geometry, std::byte* chunk);

}  // namespace mzcache::codec
