// What codecs need to know of a model's KV chunks, and the view of one chunk.
#pragma once

#include "actors/ports.h"

namespace mzcache::actors {

struct KvShape {
  ChunkLayout layout;
  RopeDescription rope;

  template <class Byte>
  [[nodiscard]] BasicChunkView<Byte> view(UnitId unit, std::uint32_t token_count,
                                          std::span<std::byte> bytes) const {
    BasicChunkView<Byte> chunk;
    chunk.layer = unit.layer;
    chunk.first_position = unit.chunk * layout.tokens;
    chunk.token_count = token_count;
    chunk.layout = &layout;
    chunk.rope = &rope;
    chunk.bytes = bytes.first(layout.bytes());
    return chunk;
  }
};

}  // namespace mzcache::actors
