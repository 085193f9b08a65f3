#include "commands/ttft/missing.h"

#include <variant>

namespace mzcache::tools {

using actors::UnitId;
using actors::UnitKind;

Missing missing_of(const engine::EngineState& state, std::uint32_t context) {
  Missing missing;
  std::optional<UnitId> before;
  const auto found = state.cache.contexts().find(context);
  const std::uint32_t next =
      found == state.cache.contexts().end() ? 0 : found->second.next_position();
  state.residency.for_each([&](UnitId unit, const engine::UnitRecord& record) {
    const bool kv = unit.kind == UnitKind::kKv;
    if (record.resident || (kv && !state.residency.seen(unit, next))) return;
    const std::uint64_t bytes = state.residency.unit_bytes(unit);
    const bool neighbour = kv && before && before->kind == UnitKind::kKv &&
                           before->layer == unit.layer && before->chunk + 1 == unit.chunk &&
                           missing.runs.back() + bytes <= state.options.restore_run_bytes;
    if (neighbour) {
      missing.runs.back() += bytes;
    } else {
      missing.runs.push_back(bytes);
    }
    before = unit;
    missing.bytes += bytes;
    const std::optional<actors::Origin> origin = state.residency.origin(unit);
    if (!origin) return;
    if (const auto* file = std::get_if<actors::FileOrigin>(&*origin)) {
      for (const actors::FileRange& range : file->ranges) {
        missing.reads.push_back({range, file->checksum, state.model.chunk_layout().bytes()});
      }
    } else if (const auto* memory = std::get_if<actors::MemoryOrigin>(&*origin)) {
      missing.decodes.push_back({unit, memory->encoded, 0, memory->token_count});
    } else if (const auto* encoded = std::get_if<actors::EncodedFileOrigin>(&*origin)) {
      missing.decodes.push_back(
          {unit, {}, missing.reads.size(), encoded->token_count, encoded->tier});
      missing.reads.push_back({encoded->range, encoded->checksum, encoded->range.bytes});
    }
  });
  return missing;
}

}  // namespace mzcache::tools
