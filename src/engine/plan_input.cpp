#include "engine/plan_input.h"

#include <algorithm>

namespace mzcache::engine {

std::uint64_t planned_stored_bytes(const actors::ModelDescription& model,
                                   std::uint64_t encoded_bytes, std::uint32_t tokens) {
  if (encoded_bytes == 0 || encoded_bytes >= model.chunk_bytes()) return 0;
  return std::max<std::uint64_t>(1, encoded_bytes * tokens / model.chunk_tokens);
}

PlannerInput resident_input(const actors::ModelDescription& model, std::uint32_t context_tokens,
                            std::uint64_t encoded_bytes, std::uint64_t stored_bytes) {
  const std::uint32_t chunk_tokens = model.chunk_tokens;
  PlannerInput input;
  input.layers = model.layers;
  const auto add = [&input](actors::UnitId unit, std::uint64_t bytes) -> PlannedUnit& {
    PlannedUnit planned;
    planned.unit = unit;
    planned.bytes = bytes;
    return input.units.emplace_back(planned);
  };
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    add(actors::weights_unit(layer), model.layer[layer].unit_bytes);
    const std::uint32_t seen_from =
        model.layer[layer].first_visible(context_tokens) / chunk_tokens * chunk_tokens;
    for (std::uint32_t begin = seen_from; begin < context_tokens; begin += chunk_tokens) {
      const std::uint32_t tokens = std::min(chunk_tokens, context_tokens - begin);
      PlannedUnit& chunk =
          add(actors::kv_unit(kPlannedContext, layer, begin / chunk_tokens), model.chunk_bytes());
      chunk.compressed_bytes = encoded_bytes * tokens / chunk_tokens;
      chunk.stored_bytes = planned_stored_bytes(model, stored_bytes, tokens);
    }
  }
  add(actors::head_unit(model.layers), model.head.unit_bytes);
  return input;
}

std::vector<actors::UnitId> unseen_chunks(const actors::ModelDescription& model,
                                          std::uint32_t context_tokens) {
  std::vector<actors::UnitId> chunks;
  for (std::uint32_t layer = model.layers; layer-- > 0;) {
    const std::uint32_t seen_from =
        model.layer[layer].first_visible(context_tokens) / model.chunk_tokens;
    for (std::uint32_t chunk = 0; chunk < seen_from; ++chunk) {
      chunks.push_back(actors::kv_unit(kPlannedContext, layer, chunk));
    }
  }
  return chunks;
}

}  // namespace mzcache::engine
