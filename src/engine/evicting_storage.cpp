// Evicting, the storage path: chunks to the swap file as they lie in their buffers, or encoded
// first into staging, or out of the in-memory swap.
#include <algorithm>
#include <utility>

#include "actors/storage_writer.h"
#include "engine/evicting.h"

namespace mzcache::engine {
namespace {

using actors::CodecTier;
using actors::UnitId;

// Raw chunks go to the disk from their shared buffers, which takes no memory: as many are on their
// way as a queue of large requests would hold.
constexpr std::uint64_t kRawOnWay = std::uint64_t{8} << 20;
// Encoded ones take staging: some segments of it, so that both the encoders and the disk have work.
constexpr std::uint64_t kStagedOnWay = 2 * actors::kSegmentBytes;

}  // namespace

std::size_t Evicting::write_window() const noexcept {
  if (deadline_.count() > 0 || to_write_.empty()) return kPerWorker;
  if (to_write_.front().from != UnitPlace::kCompressed) {
    return std::max<std::size_t>(kPerWorker, kRawOnWay / state_.model.chunk_bytes());
  }
  return std::clamp<std::size_t>(kEncodedOnWay / sizes_.expected_bytes(), kPerWorker,
                                 actors::kEncodedWritesMax);
}

// Enough for the encoders and as much for the writer, or they would wait for each other in turn.
bool Evicting::staging_is_full() const noexcept {
  const std::size_t least = kPerWorker * (state_.ports.compress.size() + 1);
  if (deadline_.count() > 0) return staged_ >= least;
  const std::uint64_t fits = kStagedOnWay / stored_sizes_->expected_bytes();
  return staged_ >= std::clamp<std::size_t>(fits, std::min(least, kStagedMax), kStagedMax);
}

void Evicting::launch_encode(const EvictionStep& step, std::uint64_t room) {
  const UnitId unit = step.unit;
  if (storage_closed_) {
    state_.residency[unit].moving = false;
    return;
  }
  actors::StagingLease staging = staging_.try_acquire(room);
  if (staging == nullptr) {
    to_write_.push_back(step);  // as it lies
    return;
  }
  const actors::CompressChunk message{unit, tokens_of(unit), *staging, CodecTier::kStorage};
  encoding_.emplace(unit, Encoding{step, std::move(staging)});
  ++staged_;
  state_.ports.compress[next_compressor_++ % state_.ports.compress.size()].send(message);
}

void Evicting::write_staged(const actors::ChunkCompressed& message, Encoding encoding) {
  const UnitId unit = message.unit;
  const std::uint32_t tokens = tokens_of(unit);
  actors::StagingLease staging = std::move(encoding.staging);
  if (message.error.code != ErrorCode::kOk) {
    --staged_;
    const std::uint64_t bound = stored_sizes_->bound(tokens);
    const bool larger = staging->size() < bound;
    staging.reset();
    if (larger) return launch_encode(encoding.step, bound);
    to_write_.push_back(encoding.step);  // as it lies
    return;
  }
  count_encoded(message, *stored_sizes_);
  report_.storage_bytes_encoded += state_.model.chunk_bytes();
  StoredForm form;
  form.encoded = true;
  form.tier = CodecTier::kStorage;
  form.stage = encoding.step.stage;
  form.token_count = tokens;
  form.bytes = message.encoded_bytes;
  if (!take_slot(form, unit)) {
    --staged_;
    return;
  }
  actors::WriteChunk write;
  write.unit = unit;
  write.encoded = std::span<const std::byte>(*staging).first(message.encoded_bytes);
  write.checksum = message.checksum;
  write.file_offset = form.offset;
  write.staging = std::move(staging);
  send_write(std::move(write));
}

void Evicting::launch_write(const EvictionStep& step) {
  const UnitRecord& record = state_.residency[step.unit];
  const Context& context = state_.cache.contexts().at(step.unit.context);
  StoredForm form;
  form.stage = step.stage;
  form.encoded = step.from == UnitPlace::kCompressed && record.compressed.has_value();
  form.token_count = form.encoded ? record.compressed->token_count
                                  : context.tokens_in_chunk(step.unit.chunk, state_.chunk_tokens());
  form.bytes = form.encoded ? record.compressed->slot.bytes : state_.model.chunk_bytes();
  if (!take_slot(form, step.unit)) return;
  actors::WriteChunk message;
  message.unit = step.unit;
  if (form.encoded) {
    message.encoded = state_.swap.bytes(record.compressed->slot);
    message.checksum = record.compressed->checksum;
  }
  message.file_offset = form.offset;
  send_write(std::move(message));
}

// False where the file has none: the chunk stays where it is.
bool Evicting::take_slot(StoredForm& form, UnitId unit) {
  const std::optional<std::uint64_t> offset =
      storage_closed_ ? std::nullopt : state_.slots.allocate(form.bytes);
  if (!offset) {
    storage_closed_ = true;
    state_.residency[unit].moving = false;
    return false;
  }
  form.offset = *offset;
  writing_.emplace(unit, form);
  return true;
}

void Evicting::send_write(actors::WriteChunk message) {
  message.grow_to = state_.slots.file_bytes();
  wrote_ = true;
  state_.ports.write.send(std::move(message));
}

void Evicting::on(const actors::ChunkWritten& message) {
  const auto found = writing_.find(message.unit);
  if (found == writing_.end()) return;
  StoredForm form = found->second;
  writing_.erase(found);
  if (form.tier == CodecTier::kStorage) --staged_;
  UnitRecord& record = state_.residency[message.unit];
  if (message.error.code != ErrorCode::kOk) {
    state_.slots.free(form.offset);
    storage_closed_ = true;
    record.moving = false;
    if (report_.detail.empty()) report_.detail = message.error.message();
    return;
  }
  form.checksum = message.checksum;
  report_.bytes_written += message.bytes_written;
  state_.residency.drop_stored(record);
  record.stored = form;
  if (form.encoded && form.tier == CodecTier::kMemory) {
    state_.residency.drop_compressed(record);
    record.moving = false;
    ++report_.units.kv_moved;
    return;
  }
  ++report_.units.kv_stored;
  let_go(message.unit);
}

}  // namespace mzcache::engine
