#include "actors/storage_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "actors/checksum.h"
#include "actors/unit_names.h"

namespace mzcache::actors {
namespace {

// Encoded chunks in staging at once; the coordinator's window is what bounds them, this is the last
// resort.
constexpr std::size_t kStagingMax = 4096;
// Embedding rows read into one staging buffer.
constexpr std::size_t kRowsPerPart = 64;

// Whole blocks around a row.
std::uint64_t row_begin(const FileRange& row) {
  return row.file_offset / kBlockAlignment * kBlockAlignment;
}
std::uint64_t row_span(const FileRange& row) {
  return align_up(row.file_offset + row.bytes, kBlockAlignment) - row_begin(row);
}

}  // namespace

// What one message asked for, with its progress.
struct StorageReader::Read {
  Transfer transfer;
  Nanoseconds begin{-1};  // of its first request
  // A unit, from a file or encoded in the swap file …
  UnitId unit;
  std::optional<std::uint64_t> checksum;
  std::uint32_t token_count = 0;
  CodecTier tier = CodecTier::kMemory;
  std::uint64_t encoded_bytes = 0;  // 0: raw, into the unit
  std::uint64_t encoded_offset = 0;
  // … or rows.
  std::vector<FileRange> rows;
  std::span<std::byte> buffer;
  StagingLease staging;
};

StorageReader::StorageReader(BlockDevice& device, SharedMemory& memory, const KvShape& shape,
                             const Clock& clock, Timeline& timeline, const std::string& track)
    : device_(device),
      memory_(memory),
      shape_(shape),
      clock_(clock),
      timeline_(timeline),
      track_(timeline.add_track(track)),
      chunk_staging_(memory, kSegmentBytes, kStagingMax),
      row_staging_(memory, 0, kStagingMax) {}

void StorageReader::on(ReadUnit&& message) noexcept {
  auto read = std::make_shared<Read>();
  read->unit = message.unit;
  if (const auto* file = std::get_if<FileOrigin>(&message.origin)) {
    read->checksum = file->checksum;
    const std::span<std::byte> buffer = memory_.bytes(message.unit);
    std::vector<TransferPiece> pieces;
    pieces.reserve(file->ranges.size());
    for (const FileRange& range : file->ranges) {
      pieces.push_back(
          {range.file, range.file_offset, buffer.subspan(range.buffer_offset), range.bytes});
    }
    read->transfer = Transfer(std::move(pieces), device_.block_bytes());
  } else {
    const auto& encoded = std::get<EncodedFileOrigin>(message.origin);
    read->checksum = encoded.checksum;
    read->token_count = encoded.token_count;
    read->tier = encoded.tier;
    read->encoded_bytes = encoded.range.bytes;
    read->encoded_offset = encoded.range.file_offset;
  }
  reads_.push_back(std::move(read));
}

void StorageReader::on(ReadRows&& message) noexcept {
  rows_request_ = message.request;
  rows_error_ = {};
  row_parts_ = 0;
  std::vector<std::shared_ptr<Read>> parts;
  const std::span<const FileRange> rows = message.rows;
  for (std::size_t at = 0; at < rows.size(); at += kRowsPerPart) {
    parts.push_back(
        read_rows(rows.subspan(at, std::min(kRowsPerPart, rows.size() - at)), message.buffer));
  }
  row_parts_ = parts.size();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (*part != nullptr) {
      reads_.push_front(std::move(*part));
    } else {
      row_part_done({ErrorCode::kNoMemory, 0, "read", "embedding rows: no staging"});
    }
  }
}

std::shared_ptr<StorageReader::Read> StorageReader::read_rows(
    std::span<const FileRange> rows, std::span<std::byte> buffer) noexcept {
  std::uint64_t total = 0;
  for (const FileRange& row : rows) total += row_span(row);
  auto read = std::make_shared<Read>();
  read->staging = row_staging_.try_acquire(total);
  if (read->staging == nullptr) return nullptr;
  std::vector<TransferPiece> pieces;
  std::uint64_t at = 0;
  for (const FileRange& row : rows) {
    const std::uint64_t span = row_span(row);
    pieces.push_back({row.file, row_begin(row), read->staging->subspan(at, span),
                      row.file_offset + row.bytes - row_begin(row)});
    at += span;
  }
  read->rows.assign(rows.begin(), rows.end());
  read->buffer = buffer;
  read->transfer = Transfer(std::move(pieces), device_.block_bytes());
  return read;
}

void StorageReader::row_part_done(Error error) noexcept {
  if (rows_error_.code == ErrorCode::kOk) rows_error_ = std::move(error);
  if (--row_parts_ == 0) ports_.rows_read.send(RowsRead{rows_request_, rows_error_});
}

void StorageReader::trim() noexcept {
  chunk_staging_.trim();
  row_staging_.trim();
}

void StorageReader::on_device() noexcept {
  reap();
  submit_more();
  if (timeline_.enabled()) {
    count(kReadsInFlight, in_flight_.size(), counted_in_flight_);
    count(kReadsLeft, reads_.size(), counted_left_);
  }
  if (idle()) trim();
}

void StorageReader::count(const char* what, std::size_t now, std::size_t& before) noexcept {
  if (now == before) return;
  before = now;
  SpanRecord sample;
  sample.track = track_;
  sample.counter = true;
  sample.name = what;
  sample.begin = sample.end = clock_.now();
  sample.bytes = now;
  timeline_.record(sample);
}

void StorageReader::submit_more() noexcept {
  bool submitted = false;
  while (in_flight_.size() < device_.depth() && !reads_.empty()) {
    const std::shared_ptr<Read> read = reads_.front();
    if (!stage(*read)) {
      reads_.pop_front();
      continue;
    }
    const TransferPiece* piece = read->transfer.next();
    if (piece == nullptr) {
      reads_.pop_front();
      if (read->transfer.finished()) finish(*read);
      continue;
    }
    if (read->begin.count() < 0) read->begin = clock_.now();
    if (in_flight_.empty()) busy_since_ = clock_.now();
    const std::uint64_t tag = next_tag_++;
    const BlockRequest request{BlockRequest::Operation::kRead, piece->file, piece->file_offset,
                               piece->span, tag};
    const TransferPiece copy = *piece;
    if (Result<void> queued = device_.submit(request); !queued) {
      read->transfer.fail(queued.error());
      read->transfer.completed(copy, 0, "", "read");
      continue;
    }
    in_flight_.emplace(tag, Request{read, copy});
    submitted = true;
  }
  if (submitted) device_.flush();
}

// Encoded chunks get their staging when they are next: those that wait need none yet.
bool StorageReader::stage(Read& read) noexcept {
  if (read.encoded_bytes == 0 || read.staging != nullptr) return true;
  read.staging = chunk_staging_.try_acquire(read.encoded_bytes);
  if (read.staging == nullptr) {
    ports_.failed.send(UnitFailed{
        read.unit, Error{ErrorCode::kNoMemory, 0, "read", unit_name(read.unit) + ": no staging"}});
    return false;
  }
  read.transfer = Transfer(
      {{FileId::kSwap, read.encoded_offset,
        read.staging->first(align_up(read.encoded_bytes, kBlockAlignment)), read.encoded_bytes}},
      device_.block_bytes());
  return true;
}

void StorageReader::reap() noexcept {
  std::array<BlockCompletion, 64> completions;
  for (;;) {
    const std::size_t count = device_.reap(completions);
    if (count == 0) return;
    for (std::size_t i = 0; i < count; ++i) {
      const auto found = in_flight_.find(completions[i].tag);
      if (found == in_flight_.end()) continue;
      const Request request = std::move(found->second);
      in_flight_.erase(found);
      count_busy(request.piece.file);
      Read& read = *request.read;
      const bool had_next = read.transfer.has_next();
      read.transfer.completed(request.piece, completions[i].result,
                              device_.name(request.piece.file), "read");
      if (read.transfer.finished()) {
        std::erase(reads_, request.read);
        finish(read);
      } else if (!had_next && read.transfer.has_next()) {
        std::erase(reads_, request.read);
        reads_.push_front(request.read);  // something must be asked again
      }
    }
  }
}

void StorageReader::count_busy(FileId file) noexcept {
  const Nanoseconds now = clock_.now();
  busy_[static_cast<std::size_t>(file)] += now - std::exchange(busy_since_, now);
}

Nanoseconds StorageReader::take_busy(FileId file) noexcept {
  return std::exchange(busy_[static_cast<std::size_t>(file)], Nanoseconds{0});
}

void StorageReader::finish(Read& read) noexcept {
  if (timeline_.enabled()) {
    SpanRecord span;
    span.track = track_;
    span.stage = Stage::kRead;
    span.overlapping = true;
    span.name = read.rows.empty() ? "unit" : "rows";
    span.begin = read.begin;
    span.end = clock_.now();
    span.unit = read.unit;
    span.has_unit = read.rows.empty();
    span.bytes = read.transfer.bytes();
    timeline_.record(span);
  }
  if (read.rows.empty()) {
    finish_unit(read);
  } else {
    finish_rows(read);
  }
}

void StorageReader::finish_rows(Read& read) noexcept {
  if (!read.transfer.failed()) {
    std::uint64_t at = 0;
    for (const FileRange& row : read.rows) {
      std::memcpy(read.buffer.data() + row.buffer_offset,
                  read.staging->data() + at + (row.file_offset - row_begin(row)), row.bytes);
      at += row_span(row);
    }
  }
  read.staging.reset();
  row_part_done(read.transfer.error());
}

void StorageReader::finish_unit(Read& read) noexcept {
  if (read.transfer.failed()) {
    Error error = read.transfer.error();
    error.context = unit_name(read.unit) + ", " + error.context;
    ports_.failed.send(UnitFailed{read.unit, std::move(error)});
    return;
  }
  if (read.encoded_bytes > 0) {
    DecodeChunk decode;
    decode.unit = read.unit;
    decode.encoded = std::span<const std::byte>(*read.staging).first(read.encoded_bytes);
    decode.checksum = *read.checksum;
    decode.token_count = read.token_count;
    decode.tier = read.tier;
    decode.staging = std::move(read.staging);
    decode.bytes_read = read.transfer.bytes();
    decode.read = take_busy(FileId::kSwap);
    ports_.decompressors[next_decompressor_++ % ports_.decompressors.size()].send(
        std::move(decode));
    return;
  }
  if (read.checksum) {
    const auto raw =
        std::span<const std::byte>(memory_.bytes(read.unit)).first(shape_.layout.bytes());
    if (checksum(raw) != *read.checksum) {
      ports_.failed.send(UnitFailed{
          read.unit,
          Error{ErrorCode::kChecksum, 0, "read", unit_name(read.unit) + ": not what was written"}});
      return;
    }
  }
  memory_.end_host_access(read.unit);
  UnitReady ready;
  ready.unit = read.unit;
  ready.bytes_read = read.transfer.bytes();
  ready.read = take_busy(read.unit.kind == UnitKind::kKv ? FileId::kSwap : FileId::kModel);
  ports_.ready.send(ready);
}

}  // namespace mzcache::actors
