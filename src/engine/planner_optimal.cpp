#include "engine/planner_optimal.h"

#include <algorithm>

namespace mzcache::engine {

void ShortestTime::run(std::uint64_t bytes) {
  const Picoseconds head_first = shortest(bytes, Head::kFirst);
  const Picoseconds head_last = shortest(bytes, Head::kLast);
  // The head is the last that a prefill needs: at equal times it is the better one to miss.
  const Head head = head_first <= head_last ? Head::kFirst : Head::kLast;
  const Filling filling = fill(std::min(head_first, head_last), head);
  if (head == Head::kLast) moves_.defer_head();
  const auto repeat = [&](std::size_t times, auto&& move) {
    for (; times != 0 && moves_.freed() < bytes; --times) move();
  };
  repeat(filling.weights, [&] { moves_.drop_weights(EvictionStage::kKvAndW); });
  repeat(filling.compressed, [&] { moves_.compress_chunk(EvictionStage::kKvAndW); });
  repeat(filling.encoded, [&] { moves_.store_compressed(); });
  repeat(filling.stored, [&] { moves_.store_chunk(EvictionStage::kKvOnly); });
}

// What both paths can take so that neither owes more than `time`.
ShortestTime::Filling ShortestTime::fill(Picoseconds time, Head head) const {
  Filling filling;
  std::uint64_t memory_free = moves_.memory_free();
  std::uint64_t storage_free = moves_.storage_free();
  PathTimes owed = moves_.owed();

  const std::vector<std::size_t>& chunks = moves_.chunks();
  if (options_.paths != EvictionPaths::kStorage) {
    for (const std::size_t index : chunks) {
      const PlannerMoves::Item& chunk = moves_.item(index);
      if (!moves_.fits_memory(chunk, memory_free)) break;
      if (owed.memory + chunk.times.decode_priced > time) break;
      owed.memory += chunk.times.decode_priced;
      const std::uint64_t grows = chunk.unit->compressed_clean ? 0 : chunk.unit->compressed_bytes;
      memory_free -= grows;
      filling.freed += chunk.unit->bytes - grows;
      ++filling.compressed;
    }
  }

  const std::vector<std::size_t>& weights = moves_.weights();
  const bool skip = head == Head::kLast && !weights.empty() &&
                    moves_.item(weights.front()).unit->unit.kind == actors::UnitKind::kHead;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const PlannerMoves::Item& unit = moves_.item(weights[(i + (skip ? 1 : 0)) % weights.size()]);
    if (owed.storage + unit.times.read > time) break;
    owed.storage += unit.times.read;
    filling.freed += unit.unit->bytes;
    ++filling.weights;
  }

  if (options_.paths == EvictionPaths::kMemory) return filling;
  fill_encoded(time, filling, owed, storage_free);
  for (std::size_t i = filling.compressed; i < chunks.size(); ++i) {
    const PlannerMoves::Item& chunk = moves_.item(chunks[i]);
    PathTimes adds;
    adds.add(chunk.times, PlannerMoves::form_when_stored(chunk));
    const std::uint64_t grows = chunk.unit->stored_clean ? 0 : chunk.unit->bytes_when_stored();
    if (grows > storage_free || owed.storage + adds.storage > time ||
        owed.memory + adds.memory > time) {
      break;
    }
    owed.storage += adds.storage;
    owed.memory += adds.memory;
    storage_free -= grows;
    filling.freed += chunk.unit->bytes;
    ++filling.stored;
  }
  return filling;
}

// Compressed chunks on to storage, those compressed earlier and those of this filling merged in
// leaving order. What they owe the memory path stays (a clean raw copy owes it less), or is more
// where the file's form takes longer to decode.
void ShortestTime::fill_encoded(Picoseconds time, Filling& filling, PathTimes& owed,
                                std::uint64_t& storage_free) const {
  const std::vector<std::size_t>& chunks = moves_.chunks();
  auto earlier = moves_.compressed().begin();
  std::size_t mine = 0;
  while (true) {
    const bool has_earlier = earlier != moves_.compressed().end();
    const bool has_mine = mine < filling.compressed;
    if (!has_earlier && !has_mine) return;
    const bool take_mine = has_mine && (!has_earlier || chunks[mine] < *earlier);
    const PlannerMoves::Item& chunk = moves_.item(take_mine ? chunks[mine] : *earlier);
    PathTimes others = owed;
    others.add(chunk.times, RestoreForm::kMemory, -1);
    const PlannerMoves::Moved moved = PlannerMoves::when_moved(chunk, others, storage_free);
    PathTimes adds;
    adds.add(chunk.times, moved.form);
    const Picoseconds longer = std::max<Picoseconds>(0, adds.memory - chunk.times.decode_priced);
    if (moved.grows > storage_free || owed.storage + adds.storage > time) return;
    if (longer > 0 && owed.memory + longer > time) return;
    owed.storage += adds.storage;
    owed.memory += longer;
    storage_free -= moved.grows;
    filling.freed += chunk.unit->compressed_bytes;
    ++filling.encoded;
    if (take_mine) {
      ++mine;
    } else {
      ++earlier;
    }
  }
}

Picoseconds ShortestTime::shortest(std::uint64_t bytes, Head head) const {
  Picoseconds low = moves_.owed().longer();
  Picoseconds high = longest();
  while (low < high) {
    const Picoseconds middle = low + (high - low) / 2;
    if (fill(middle, head).freed >= bytes) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

// Enough for everything.
Picoseconds ShortestTime::longest() const {
  Picoseconds sum = moves_.owed().storage + moves_.owed().memory;
  const auto add = [&](std::size_t index) {
    const UnitTimes& times = moves_.item(index).times;
    sum += times.read + times.read_compressed + times.decode_priced + times.decode_stored_priced;
  };
  for (const std::size_t index : moves_.chunks()) add(index);
  for (const std::size_t index : moves_.weights()) add(index);
  for (const std::size_t index : moves_.compressed()) add(index);
  return sum;
}

}  // namespace mzcache::engine
