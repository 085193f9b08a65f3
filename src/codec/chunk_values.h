// Where a value lies in a chunk, and moving the valid tokens' values as they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "actors/ports.h"

namespace mzcache::codec {

// Index, in FP16 values from the start of K, of (token, channel); channel runs over the token's
// concatenated KV heads.
[[nodiscard]] std::uint64_t k_index(const actors::ChunkLayout& layout, std::uint32_t token,
                                    std::uint32_t channel) noexcept;
// The same from the start of V.
[[nodiscard]] std::uint64_t v_index(const actors::ChunkLayout& layout, std::uint32_t token,
                                    std::uint32_t channel) noexcept;

// Copies the valid tokens' values, in the order they lie in the chunk, to or from a packed run of
// valid_bytes(). With all tokens valid the packed run is the chunk itself.
void pack_valid(const actors::ChunkLayout& layout, std::uint32_t token_count,
                const std::byte* chunk, std::byte* packed) noexcept;
void unpack_valid(const actors::ChunkLayout& layout, std::uint32_t token_count,
                  const std::byte* packed, std::byte* chunk) noexcept;

}  // namespace mzcache::codec
