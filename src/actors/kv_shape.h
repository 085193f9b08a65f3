// What codecs need to know of a model's KV chunks, and the view of one chunk.
#pragma once

#include "actors/model_description.h"

namespace mzcache::actors {

struct KvShape {
  ChunkLayout layout;
  std::vector<RopeDescription> ropes;  // by layer

  template <class Byte>
  [[nodiscard]] BasicChunkView<Byte> view(UnitId unit, std::uint32_t token_count,
                                          std::span<std::byte> bytes) const {
    BasicChunkView<Byte> chunk;
    chunk.layer = unit.layer;
    chunk.first_position = unit.chunk * layout.tokens;
    chunk.token_count = token_count;
    chunk.layout = &layout;
    chunk.rope = &ropes[unit.layer];
    chunk.bytes = bytes.first(layout.bytes());
    return chunk;
  }
};

[[nodiscard]] inline KvShape kv_shape(const ModelDescription& model) {
  KvShape shape{model.chunk_layout(), {}};
  for (const LayerDescription& layer : model.layer) shape.ropes.push_back(model.rope_of(layer));
  return shape;
}

}  // namespace mzcache::actors
