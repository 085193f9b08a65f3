#include "engine/engine_state.h"

namespace mzcache::engine {

using actors::UnitId;

void EngineState::release(const std::vector<UnitId>& units) {
  std::vector<std::vector<UnitId>> parts(ports.release.size());
  for (const UnitId unit : units) {
    residency[unit].moving = true;
    parts[allocator_of(unit)].push_back(unit);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    ++releases_pending;
    ports.release[i].send(actors::ReleaseUnits{std::move(parts[i])});
  }
}

void EngineState::trim_chunks(Context& context, std::uint32_t chunks) {
  if (context.chunks <= chunks) return;
  std::vector<UnitId> gone;
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    for (std::uint32_t chunk = chunks; chunk < context.chunks; ++chunk) {
      const UnitId unit = actors::kv_unit(context.id, layer, chunk);
      if (residency[unit].resident) gone.push_back(unit);
    }
  }
  if (!gone.empty()) release(gone);
  context.chunks = chunks;
  residency.set_chunks(context.id, chunks);
}

void EngineState::lose_kv(Context& context) {
  context.kv_tokens = 0;
  trim_chunks(context, 0);
}

std::uint64_t EngineState::memory_swap_budget() const noexcept {
  if (options.memory_swap_max_bytes > 0) return options.memory_swap_max_bytes;
  std::uint64_t chunks = 0;
  for (const auto& [id, context] : cache.contexts()) chunks += context.chunks;
  return static_cast<std::uint64_t>(static_cast<double>(chunks * model.layers *
                                                        model.chunk_bytes()) *
                                    options.memory_swap_max_percent / 100.0);
}

}  // namespace mzcache::engine
