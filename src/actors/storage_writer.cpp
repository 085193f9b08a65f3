#include "actors/storage_writer.h"

#include <array>
#include <cstring>

#include "actors/checksum.h"
#include "actors/unit_names.h"

namespace mzcache::actors {
struct StorageWriter::Write {
  UnitId unit;
  Transfer transfer;
  Nanoseconds begin{-1};
  std::uint64_t checksum = 0;
  StagingLease staging;
  bool host_access = false;
};

StorageWriter::StorageWriter(BlockDevice& device, SharedMemory& memory, const KvShape& shape,
                             const Clock& clock, Timeline& timeline, const std::string& track)
    : device_(device),
      memory_(memory),
      shape_(shape),
      clock_(clock),
      timeline_(timeline),
      track_(timeline.add_track(track)),
      staging_(memory, kSegmentBytes, kEncodedWritesMax) {}

void StorageWriter::on(WriteChunk&& message) noexcept {
  const auto refuse = [&](Error error) {
    error.context = unit_name(message.unit) + ", " + error.context;
    ports_.written.send(ChunkWritten{message.unit, 0, 0, std::move(error)});
  };
  if (Result<void> grown = device_.grow(FileId::kSwap, message.grow_to); !grown) {
    refuse(std::move(grown.error()));
    return;
  }
  auto write = std::make_shared<Write>();
  write->unit = message.unit;
  TransferPiece piece;
  piece.file = FileId::kSwap;
  piece.file_offset = message.file_offset;
  if (message.encoded.empty()) {
    memory_.begin_host_access(message.unit);
    write->host_access = true;
    piece.span = memory_.bytes(message.unit).first(shape_.layout.bytes());
    piece.bytes = shape_.layout.bytes();
    write->checksum = checksum(piece.span);
  } else {
    const std::uint64_t whole = align_up(message.encoded.size(), kBlockAlignment);
    write->staging = std::move(message.staging);
    if (write->staging == nullptr) {
      write->staging = staging_.try_acquire(whole);
      if (write->staging == nullptr) {
        refuse({ErrorCode::kNoMemory, 0, "write", "no staging"});
        return;
      }
      std::memcpy(write->staging->data(), message.encoded.data(), message.encoded.size());
    }
    std::memset(write->staging->data() + message.encoded.size(), 0, whole - message.encoded.size());
    piece.span = write->staging->first(whole);
    piece.bytes = whole;
    write->checksum = message.checksum;
  }
  write->transfer = Transfer({piece}, device_.block_bytes());
  writes_.push_back(std::move(write));
}

void StorageWriter::on_device() noexcept {
  reap();
  submit_more();
}

void StorageWriter::submit_more() noexcept {
  bool submitted = false;
  while (in_flight_.size() < device_.depth() && !writes_.empty()) {
    const std::shared_ptr<Write> write = writes_.front();
    const TransferPiece* piece = write->transfer.next();
    if (piece == nullptr) {
      writes_.pop_front();
      if (write->transfer.finished()) finish(*write);
      continue;
    }
    if (write->begin.count() < 0) write->begin = clock_.now();
    const TransferPiece copy = *piece;
    const std::uint64_t tag = next_tag_++;
    const BlockRequest request{BlockRequest::Operation::kWrite, copy.file, copy.file_offset,
                               copy.span, tag};
    if (Result<void> queued = device_.submit(request); !queued) {
      write->transfer.fail(queued.error());
      write->transfer.completed(copy, 0, "", "write");
      continue;
    }
    in_flight_.emplace(tag, Request{write, copy});
    submitted = true;
  }
  if (submitted) device_.flush();
}

void StorageWriter::reap() noexcept {
  std::array<BlockCompletion, 64> completions;
  for (;;) {
    const std::size_t count = device_.reap(completions);
    if (count == 0) return;
    for (std::size_t i = 0; i < count; ++i) {
      const auto found = in_flight_.find(completions[i].tag);
      if (found == in_flight_.end()) continue;
      const Request request = std::move(found->second);
      in_flight_.erase(found);
      Write& write = *request.write;
      const bool had_next = write.transfer.has_next();
      write.transfer.completed(request.piece, completions[i].result,
                               device_.name(request.piece.file), "write");
      if (write.transfer.finished()) {
        std::erase(writes_, request.write);
        finish(write);
      } else if (!had_next && write.transfer.has_next()) {
        std::erase(writes_, request.write);
        writes_.push_front(request.write);
      }
    }
  }
}

void StorageWriter::finish(Write& write) noexcept {
  if (write.host_access) memory_.end_host_access(write.unit);
  if (timeline_.enabled()) {
    SpanRecord span;
    span.track = track_;
    span.stage = Stage::kWrite;
    span.overlapping = true;
    span.name = "chunk";
    span.begin = write.begin;
    span.end = clock_.now();
    span.unit = write.unit;
    span.has_unit = true;
    span.bytes = write.transfer.bytes();
    timeline_.record(span);
  }
  ChunkWritten report;
  report.unit = write.unit;
  report.error = write.transfer.error();
  if (report.error.code == ErrorCode::kOk) {
    report.bytes_written = write.transfer.bytes();
    report.checksum = write.checksum;
  } else {
    report.error.context = unit_name(write.unit) + ", " + report.error.context;
  }
  write.staging.reset();
  ports_.written.send(std::move(report));
}

}  // namespace mzcache::actors
