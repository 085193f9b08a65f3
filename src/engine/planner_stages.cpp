#include "engine/planner_stages.h"

#include <algorithm>
#include <cstdlib>

namespace mzcache::engine {

bool FourStages::next_step() {
  const bool weights_left = moves_.weights_left();
  if (moves_.chunks_left()) {
    const Item& chunk = moves_.next_chunk();
    // T chunks are kept for pairing with the weights, which only the memory path can do.
    const bool memory_closed = options_.memory_closed || options_.paths == EvictionPaths::kStorage;
    const Picoseconds threshold = memory_closed ? 0 : moves_.weights_read_time();
    if (moves_.chunks_decode_time() > threshold) {
      if (balance_chunk(chunk, EvictionStage::kKvOnly)) return true;
    } else if (!weights_left) {  // chunks paired to the weight unit dropped last
      if (balance_chunk(chunk, EvictionStage::kKvAndW)) return true;
    } else if (moves_.fits_memory(chunk)) {
      // A weight unit where the memory path owes as much as storage, else a chunk paired to the
      // last one. So the paths differ by at most the unit dropped last. A chunk that owes nothing
      // pairs with any.
      if (moves_.owed().difference() > 0 || chunk.times.decode_priced == 0) {
        moves_.compress_chunk(EvictionStage::kKvAndW);
      } else {
        moves_.drop_weights(EvictionStage::kKvAndW);
      }
      return true;
    }
  }
  if (weights_left) {
    moves_.drop_weights(EvictionStage::kWOnly);
    return true;
  }
  return moves_.store_compressed();
}

// One chunk to the path that would then finish earlier; false where it fits nowhere.
bool FourStages::balance_chunk(const Item& chunk, EvictionStage stage) {
  const bool memory = moves_.fits_memory(chunk);
  const bool storage = moves_.fits_storage(chunk);
  if (!memory && !storage) return false;
  bool to_memory = memory;
  if (memory && storage) {
    to_memory = options_.paths == EvictionPaths::kMemory ||
                (options_.paths == EvictionPaths::kHybrid && prefers_memory(chunk));
  }
  if (to_memory) {
    moves_.compress_chunk(stage);
  } else {
    moves_.store_chunk(stage);
  }
  return true;
}

// Decided as if what CompKV left in the swap file were not there: its chunks were compressed first,
// and a second identical Evict shall find the same way.
bool FourStages::prefers_memory(const Item& chunk) const {
  PathTimes memory = moves_.owed();
  memory.add(chunk.times, RestoreForm::kMemory);
  PathTimes storage = moves_.owed();
  storage.add(chunk.times, RestoreForm::kStorage);
  const PlannedUnit& unit = *chunk.unit;
  const bool stored_clean = unit.stored_clean && !unit.stored_compressed && !unit.stored_last;
  if (unit.compressed_clean != stored_clean) {  // a copy that costs nothing, if balance bears it
    const PathTimes& clean = unit.compressed_clean ? memory : storage;
    const Picoseconds bearable = std::max(chunk.times.decode_priced, chunk.times.read);
    if (std::abs(clean.difference()) <= bearable) return unit.compressed_clean;
  }
  return memory.longer() <= storage.longer();
}

}  // namespace mzcache::engine
