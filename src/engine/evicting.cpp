#include "engine/evicting.h"

#include <algorithm>

#include "engine/milliseconds.h"

namespace mzcache::engine {
namespace {

using actors::UnitId;
using actors::UnitKind;

// Memory is given back in pieces of this size, and a layer's neighbours in one call to the system
// where they come to the smaller one: cutting a huge page costs far more than giving it back whole.
constexpr std::uint64_t kReleaseBytes = std::uint64_t{5} << 19;
constexpr std::uint64_t kReleaseLayerBytes = std::uint64_t{1} << 20;

// Bytes a follow-up plan asks for at least.
constexpr std::uint64_t kLittle = std::uint64_t{16} << 10;

// The plan's last stage on a chunk that is still resident: it goes to the file encoded.
bool in_one_go(const EvictionStep& step) {
  return step.stage == EvictionStage::kCompKv && step.from == UnitPlace::kResident &&
         step.to == UnitPlace::kStored;
}

}  // namespace

Evicting::Evicting(EngineState& state)
    : state_(state),
      sizes_(*state.codecs.memory, state.model.chunk_layout()),
      staging_(state.memory, actors::kSegmentBytes, kStagedMax) {
  if (state.codecs.storage != nullptr) {
    stored_sizes_.emplace(*state.codecs.storage, state.model.chunk_layout());
  }
}

void Evicting::begin(std::uint64_t bytes, actors::Nanoseconds accepted,
                     actors::Nanoseconds deadline) {
  report_ = {};
  report_.requested_bytes = bytes;
  accepted_ = accepted;
  deadline_ = deadline.count() > 0 ? accepted + deadline : actors::Nanoseconds{0};
  held_at_start_ = state_.residency.held_bytes();
  // Encoded forms kept beside resident chunks come on top of the footprint, and go with it.
  wanted_bytes_ =
      bytes < state_.residency.footprint_bytes() ? bytes : std::max(bytes, held_at_start_);
  resident_at_start_ = state_.memory.resident_set_bytes();
  room_first_ = false;
  wrote_ = false;
  memory_closed_ = state_.options.memory_closed;
  storage_closed_ = false;
  to_compress_.clear();
  to_encode_.clear();
  to_write_.clear();
  write_encoded_.clear();
  free_of_work_.clear();
  gone_.clear();
  scratch_on_way_ = bytes > 0;
  if (scratch_on_way_) state_.ports.release_scratch.send({});
}

std::uint64_t Evicting::freed() const noexcept {
  const std::uint64_t held = state_.residency.held_bytes();
  return held < held_at_start_ ? held_at_start_ - held : 0;
}

bool Evicting::work_under_way() const noexcept {
  return !compressing_.empty() || !encoding_.empty() || !writing_.empty() ||
         state_.releases_pending > 0;
}

bool Evicting::advance() {
  for (;;) {
    if (compressing_.empty() || gone_bytes() >= kReleaseBytes) release_gone();
    if (!free_of_work_.empty()) {
      // Encoding waits for it: memory that was just given back is there at once for the in-memory
      // swap, where other memory may first have to be found and cleared.
      room_first_ = true;
      state_.release(free_of_work_);
      free_of_work_.clear();
    }
    if (state_.releases_pending == 0) room_first_ = false;
    if (!late()) launch();
    if (late() && !work_under_way()) drop_what_is_late();
    if (work_under_way()) return false;
    if (!to_compress_.empty() || !to_encode_.empty() || !to_write_.empty())
      continue;  // a path was closed meanwhile
    if (freed() >= wanted_bytes_ || !make_plan()) {
      if (scratch_on_way_) return false;
      finish();
      return true;
    }
  }
}

// What the next plan is asked for. Plans count encoded bytes, reports whole segments. So at the end
// the room left in a segment is filled, for which each chunk counts whole, or the rest of a segment
// is emptied.
std::uint64_t Evicting::still_wanted() const noexcept {
  const std::uint64_t in_use = state_.residency.resident_bytes() + state_.swap.used_bytes();
  const std::uint64_t gone = in_use < held_at_start_ ? held_at_start_ - in_use : 0;
  if (gone + kLittle < wanted_bytes_) return wanted_bytes_ - gone;
  if (state_.residency.resident_bytes() == 0) {
    return std::max(kLittle, state_.swap.lowest_segment_bytes());
  }
  const std::uint64_t chunk = state_.model.chunk_bytes();
  const std::uint64_t encoded = sizes_.expected_bytes();
  const std::uint64_t missing = wanted_bytes_ - std::min(freed(), wanted_bytes_);
  const std::uint64_t room = state_.swap.held_bytes() - state_.swap.used_bytes();
  const std::uint64_t chunks = encoded < chunk ? std::min(missing / chunk, room / encoded) : 0;
  return std::max(kLittle, chunks * (chunk - encoded));
}

PlannerInput Evicting::planner_input() const {
  PlannerInput input = state_.residency.planner_input(
      state_.cache, sizes_.expected_bytes(), stored_sizes_ ? stored_sizes_->expected_bytes() : 0);
  input.profile = state_.profile;
  if (state_.options.compressed_attention) decode_takes_no_time(input.profile);
  const std::uint64_t budget = state_.memory_swap_budget();
  const std::uint64_t used = state_.swap.used_bytes();
  input.memory_swap_free = memory_closed_ || used >= budget ? 0 : budget - used;
  if (storage_closed_) input.storage_free = 0;
  for (const auto& [id, context] : state_.cache.contexts()) {
    input.contexts.push_back(
        {id, context.kv_tokens, state_.chunk_tokens(), state_.model.has_windows()});
  }
  return input;
}

// Chunks that nothing will look at again go before anything is planned: they cost nothing.
bool Evicting::free_unseen() {
  std::uint64_t freed_now = 0;
  for (const auto& [id, context] : state_.cache.contexts()) {
    const std::uint64_t wanted = wanted_bytes_ - std::min(freed(), wanted_bytes_);
    if (freed_now >= wanted) break;
    freed_now += state_.free_unseen(context, wanted - freed_now);
  }
  return freed_now > 0;
}

bool Evicting::make_plan() {
  if (free_unseen()) return true;
  EvictionPlan plan = state_.planner->plan(planner_input(), still_wanted());
  const bool dropped = drop_kept_forms(plan);
  if (dropped) {
    if (freed() >= wanted_bytes_) return true;
    plan = state_.planner->plan(planner_input(), still_wanted());
  }
  return take_steps(plan) || dropped;
}

// Encoded forms kept beside chunks that stay resident are the first memory to go. Those of chunks
// that leave are what makes leaving free.
bool Evicting::drop_kept_forms(const EvictionPlan& plan) {
  if (state_.residency.kept_bytes() == 0) return false;
  std::set<UnitId> leaving;
  for (const EvictionStep& step : plan.steps) leaving.insert(step.unit);
  bool dropped = false;
  state_.residency.for_each([&](UnitId unit, UnitRecord& record) {
    if (!record.resident || !record.compressed || leaving.contains(unit)) return;
    state_.residency.drop_compressed(record);
    dropped = true;
  });
  return dropped;
}

// Chunks that are computed again when they are needed: the context's KV ends before the first of
// them.
bool Evicting::drop_recomputed(const EvictionPlan& plan) {
  std::map<std::uint32_t, std::uint32_t> ends;  // context → chunks left
  for (const EvictionStep& step : plan.steps) {
    if (step.stage != EvictionStage::kRecompute) continue;
    ++report_.units.kv_dropped;
    const auto [end, first] = ends.emplace(step.unit.context, step.unit.chunk);
    if (!first) end->second = std::min(end->second, step.unit.chunk);
  }
  for (const auto& [id, chunks] : ends) {
    Context& context = *state_.cache.find(id);
    // Chunks that windows have left behind are gone: nothing can begin after them.
    const std::uint32_t kept = state_.model.has_windows() ? 0 : chunks;
    context.kv_tokens = std::min(context.kv_tokens, kept * state_.chunk_tokens());
    state_.trim_chunks(context, kept);
    room_first_ = true;
  }
  return !ends.empty();
}

bool Evicting::take_steps(const EvictionPlan& plan) {
  bool dropped = drop_recomputed(plan);
  for (const EvictionStep& step : plan.steps) {
    if (step.stage == EvictionStage::kRecompute) continue;
    UnitRecord& record = state_.residency[step.unit];
    if (record.moving) continue;
    record.moving = true;
    if (step.unit.kind != UnitKind::kKv || step.to == UnitPlace::kDropped) {
      free_of_work_.push_back(step.unit);
      if (step.unit.kind == UnitKind::kHead) ++report_.units.head_dropped;
      if (step.unit.kind == UnitKind::kWeights) ++report_.units.weights_dropped;
    } else if (step.from == UnitPlace::kResident && record.stored) {
      state_.residency.drop_compressed(record);  // the file has it: no need for both
      free_of_work_.push_back(step.unit);
      ++report_.units.kv_clean;
      ++report_.units.kv_stored;
    } else if (step.from == UnitPlace::kResident && record.compressed && !in_one_go(step)) {
      free_of_work_.push_back(step.unit);
      ++report_.units.kv_clean;
      ++report_.units.kv_compressed;
    } else if (step.from == UnitPlace::kCompressed && record.stored) {
      state_.residency.drop_compressed(record);  // the file has it already
      record.moving = false;
      dropped = true;
      ++report_.units.kv_clean;
      ++report_.units.kv_moved;
    } else if (in_one_go(step) && record.compressed) {
      free_of_work_.push_back(step.unit);
      to_write_.push_back({step.unit, UnitPlace::kCompressed, UnitPlace::kStored, step.stage, 0});
    } else if (step.encoded) {
      to_encode_.push_back(step);
    } else if (step.to == UnitPlace::kCompressed || in_one_go(step)) {
      // In one go: encoded now, and the encoded form written as soon as it is there.
      if (in_one_go(step)) write_encoded_.insert(step.unit);
      to_compress_.push_back(step.unit);
    } else {
      to_write_.push_back(step);
    }
  }
  return dropped || !free_of_work_.empty() || !to_compress_.empty() || !to_encode_.empty() ||
         !to_write_.empty();
}

bool Evicting::late() const noexcept {
  return deadline_.count() > 0 && state_.clock.now() >= deadline_;
}

// Past the deadline nothing more is encoded or written: a context with chunks left to move is
// dropped whole, because a forward pass that has to compute one chunk again has to compute all.
void Evicting::drop_what_is_late() {
  std::set<std::uint32_t> late;
  for (const UnitId unit : to_compress_) late.insert(unit.context);
  for (const EvictionStep& step : to_encode_) late.insert(step.unit.context);
  for (const EvictionStep& step : to_write_) late.insert(step.unit.context);
  to_compress_.clear();
  to_encode_.clear();
  to_write_.clear();
  write_encoded_.clear();
  for (const std::uint32_t id : late) {
    Context& context = *state_.cache.find(id);
    state_.residency.for_each([&](UnitId unit, const UnitRecord&) {
      if (unit.kind == UnitKind::kKv && unit.context == id) ++report_.units.kv_dropped;
    });
    state_.lose_kv(context);
  }
}

// With a deadline little is on its way: it arrives even when the time is up.
std::size_t Evicting::compress_window() const noexcept {
  const std::size_t least = kPerWorker * state_.ports.compress.size();
  if (deadline_.count() > 0) return least;
  return std::max<std::size_t>(least, kEncodedOnWay / sizes_.expected_bytes());
}

void Evicting::launch() {
  // First, because the disk is what the compressors do not keep waiting for long.
  while (!room_first_ && !to_encode_.empty() && !staging_is_full()) {
    const EvictionStep step = to_encode_.front();
    to_encode_.pop_front();
    launch_encode(step, stored_sizes_->likely_bytes(tokens_of(step.unit)));
  }
  // Memory that is still to be given back counts: the swap must not grow ahead of it.
  while (!room_first_ && !to_compress_.empty() &&
         compressing_.size() + state_.releases_pending < compress_window()) {
    const UnitId unit = to_compress_.front();
    to_compress_.pop_front();
    launch_compress(unit, sizes_.likely_bytes(tokens_of(unit)));
  }
  while (!to_write_.empty() && writing_.size() < write_window()) {
    const EvictionStep step = to_write_.front();
    to_write_.pop_front();
    launch_write(step);
  }
}

std::uint32_t Evicting::tokens_of(UnitId unit) const {
  const Context& context = state_.cache.contexts().at(unit.context);
  return std::max(1U, context.tokens_in_chunk(unit.chunk, state_.chunk_tokens()));
}

void Evicting::launch_compress(UnitId unit, std::uint64_t room) {
  const std::uint32_t tokens = tokens_of(unit);
  Result<MemorySwap::Slot> slot =
      memory_closed_ ? Result<MemorySwap::Slot>(Error{ErrorCode::kNoMemory, 0, "", ""})
                     : state_.swap.push(room);
  if (!slot) {
    memory_closed_ = true;
    write_encoded_.erase(unit);
    state_.residency[unit].moving = false;
    return;
  }
  compressing_.emplace(unit, *slot);
  state_.ports.compress[next_compressor_++ % state_.ports.compress.size()].send(
      actors::CompressChunk{unit, tokens, state_.swap.bytes(*slot)});
}

void Evicting::on(const actors::ChunkCompressed& message) {
  if (auto staged = encoding_.extract(message.unit)) {
    return write_staged(message, std::move(staged.mapped()));
  }
  const auto found = compressing_.find(message.unit);
  if (found == compressing_.end()) return;
  MemorySwap::Slot slot = found->second;
  compressing_.erase(found);
  const std::uint32_t tokens = tokens_of(message.unit);
  if (message.error.code != ErrorCode::kOk) {
    UnitRecord& record = state_.residency[message.unit];
    state_.swap.pop(slot);
    const std::uint64_t bound = sizes_.bound(tokens);
    if (slot.bytes < bound) return launch_compress(message.unit, bound);
    memory_closed_ = true;
    write_encoded_.erase(message.unit);
    record.moving = false;
    return;
  }
  state_.swap.shrink(slot, message.encoded_bytes);
  CompressedForm form{slot, message.checksum, tokens, {}};
  if (state_.options.compressed_attention) {
    form.in_place = state_.codecs.memory->in_place(state_.swap.bytes(slot),
                                                   state_.model.chunk_layout(), tokens);
  }
  state_.residency.set_compressed(message.unit, form);
  count_encoded(message, sizes_);
  ++report_.units.kv_compressed;
  let_go(message.unit);
  if (write_encoded_.erase(message.unit) > 0) {
    to_write_.push_back({message.unit, UnitPlace::kCompressed, UnitPlace::kStored,
                         EvictionStage::kCompKv, message.encoded_bytes});
  }
}

void Evicting::count_encoded(const actors::ChunkCompressed& message, EncodedSizes& sizes) {
  if (tokens_of(message.unit) == state_.chunk_tokens()) sizes.learn(message.encoded_bytes);
  report_.bytes_encoded += state_.model.chunk_bytes();
  report_.bytes_compressed += message.encoded_bytes;
}

std::uint64_t Evicting::gone_bytes() const noexcept {
  return gone_.size() * state_.model.chunk_bytes();
}

void Evicting::let_go(UnitId unit) {
  const bool layer_ends = !gone_.empty() && gone_.front().layer != unit.layer;
  if (layer_ends && gone_bytes() >= kReleaseLayerBytes) release_gone();
  gone_.push_back(unit);
}

void Evicting::release_gone() {
  if (gone_.empty()) return;
  state_.release(gone_);
  gone_.clear();
}

void Evicting::finish() {
  if (wrote_) state_.ports.writes_over.send({});
  staging_.trim();
  report_.ms = to_ms(state_.clock.now() - accepted_);
  report_.freed_bytes = freed();
  report_.all_there_is = report_.freed_bytes < report_.requested_bytes;
  report_.remaining_percent = state_.residency.totals().remaining_percent;
  report_.pss_drop_bytes = static_cast<std::int64_t>(resident_at_start_) -
                           static_cast<std::int64_t>(state_.memory.resident_set_bytes());
  const EvictionPlan nothing = state_.planner->plan(planner_input(), 0);
  report_.restore_memory_ms = nothing.restore_memory_s * 1e3;
  report_.restore_storage_ms = nothing.restore_storage_s * 1e3;
}

}  // namespace mzcache::engine
