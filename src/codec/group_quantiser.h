// Group-wise quantisation of whole chunks, shared by q8 and q4: groups of 64 values over a token's
// concatenated KV heads (the last of a token may be shorter), two FP16 parameters each, K and V
// alike. Decoding and encoding again changes no byte (q8_kernels.h says why).
//
// Grouped form, n = kv_heads · head_dim values per token, G = ceil(n / 64), T = token_count:
//   parameters  [K, V][G][near, far][T] FP16
//   codes       [K, V][G] blocks of T · (values of the group) bytes. In a tiled K: [token tile of
//               32][value][lane], the last tile as wide as its valid tokens; else [token][value].
#pragma once

#include <string_view>

#include "actors/ports.h"
#include "codec/q8_kernels.h"

namespace mzcache::codec {

struct GroupedSize {
  std::uint64_t parameter_bytes = 0;
  std::uint64_t code_bytes = 0;  // one byte per value
  [[nodiscard]] std::uint64_t total() const noexcept { return parameter_bytes + code_bytes; }
};
[[nodiscard]] GroupedSize grouped_size(const actors::ChunkLayout& layout,
                                       std::uint32_t token_count) noexcept;

// Codes 0 … top. `grouped` has grouped_size() bytes. False where the chunk must be kept raw: Inf or
// NaN among the valid values, or a group that has no stable code.
[[nodiscard]] bool encode_groups(const Q8Kernels& kernels, float top,
                                 const actors::ChunkView& chunk, std::byte* grouped) noexcept;
// Only token_count tokens are written.
void decode_groups(const Q8Kernels& kernels, float top, const std::byte* grouped,
                   const actors::MutableChunkView& chunk) noexcept;
// kBadFormat where a parameter is Inf or NaN, which the encoder never writes.
[[nodiscard]] Result<void> check_parameters(std::string_view codec, const std::byte* grouped,
                                            const GroupedSize& size);

}  // namespace mzcache::codec
