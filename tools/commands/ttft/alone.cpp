#include "commands/ttft/alone.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/checksum.h"
#include "actors/transfer.h"
#include "engine/wiring_options.h"

namespace mzcache::tools {
namespace {

using actors::align_up;

// Room for staging, beyond what the units take.
constexpr std::uint64_t kSpareBytes = std::uint64_t{64} << 20;

double cpu_now_ms() {
  timespec now = {};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

template <class Work>
StageCost timed(Work&& work) {
  const double cpu = cpu_now_ms();
  const auto begin = std::chrono::steady_clock::now();
  work();
  StageCost cost;
  cost.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  cost.cpu_ms = cpu_now_ms() - cpu;
  return cost;
}

void check(Result<void> result) {
  if (!result) throw Exception(std::move(result.error()));
}

}  // namespace

StagesAlone::StagesAlone(const Config& config, std::shared_ptr<io::StorageFiles> files,
                         const actors::TierCodecs& codecs, const actors::KvShape& shape)
    : huge_(config.memory.huge_pages),
      device_(value_or_throw(
          io::open_storage(std::move(files), engine::to_storage_options(config, {})))),
      codecs_(codecs),
      shape_(shape) {}

StageCost StagesAlone::allocate(const Missing& missing) {
  std::uint64_t encoded = 0;
  for (const auto& read : missing.reads) encoded += align_up(read.range.bytes, gpu::kPageBytes);
  std::uint64_t total = kSpareBytes + encoded;
  for (const std::uint64_t run : missing.runs) total += align_up(run, gpu::kHugePageBytes);
  memory_ = value_or_throw(gpu::PageReservation::create(total));
  std::uint64_t at = 0;
  const StageCost cost = timed([&] {
    for (const std::uint64_t run : missing.runs) {
      check(gpu::populate_pages(memory_.data() + at, run, huge_, {}));
      at += align_up(run, gpu::kHugePageBytes);
    }
  });
  // What is read to be decoded lies beside its chunk for a while; the other reads fill runs.
  check(gpu::populate_pages(memory_.data() + at, memory_.bytes() - at, huge_, {}));
  return cost;
}

StageCost StagesAlone::read(const Missing& missing, std::uint64_t& bytes_read) {
  std::vector<actors::TransferPiece> pieces;
  places_.clear();
  std::uint64_t at = 0;
  for (const auto& [range, checksum, checked_bytes] : missing.reads) {
    const std::uint64_t span = align_up(range.bytes, actors::kBlockAlignment);
    places_.push_back(at);
    if (!pieces.empty() && pieces.back().file == range.file &&
        pieces.back().file_offset + pieces.back().span.size() == range.file_offset &&
        pieces.back().bytes == pieces.back().span.size()) {
      pieces.back().bytes += range.bytes;
      pieces.back().span = {pieces.back().span.data(), pieces.back().span.size() + span};
    } else {
      pieces.push_back({range.file, range.file_offset, {memory_.data() + at, span}, range.bytes});
    }
    at += span;
  }
  behind_reads_ = align_up(at, gpu::kHugePageBytes);
  actors::Transfer transfer(std::move(pieces), device_->block_bytes());
  bytes_read = transfer.bytes();
  const StageCost cost = timed([&] {
    std::map<std::uint64_t, actors::TransferPiece> in_flight;
    std::array<actors::BlockCompletion, 64> done;
    std::uint64_t tag = 0;
    while (!transfer.finished()) {
      bool more = false;
      while (in_flight.size() < device_->depth()) {
        const actors::TransferPiece* piece = transfer.next();
        if (piece == nullptr) break;
        check(device_->submit({actors::BlockRequest::Operation::kRead, piece->file,
                               piece->file_offset, piece->span, ++tag}));
        in_flight.emplace(tag, *piece);
        more = true;
      }
      if (more) device_->flush();
      device_->wait();
      for (std::size_t count = 0; (count = device_->reap(done)) > 0;) {
        for (std::size_t i = 0; i < count; ++i) {
          const auto piece = in_flight.extract(done[i].tag);
          if (piece.empty()) continue;
          transfer.completed(piece.mapped(), done[i].result, device_->name(piece.mapped().file),
                             "read");
        }
      }
    }
  });
  if (transfer.failed()) throw Exception(transfer.error());
  return cost;
}

StageCost StagesAlone::decode(const Missing& missing) {
  std::uint64_t scratch_bytes = codecs_.memory->scratch_bytes(shape_.layout);
  if (codecs_.storage != nullptr) {
    scratch_bytes = std::max(scratch_bytes, codecs_.storage->scratch_bytes(shape_.layout));
  }
  std::vector<std::byte> scratch(scratch_bytes);
  const std::uint64_t chunk_bytes = shape_.layout.bytes();
  std::uint64_t at = behind_reads_;
  std::uint64_t verified = 0;
  const StageCost cost = timed([&] {
    for (std::size_t i = 0; i < missing.reads.size(); ++i) {
      const auto& read = missing.reads[i];
      if (!read.checksum) continue;
      const std::span<const std::byte> bytes(memory_.data() + places_[i], read.checked_bytes);
      if (actors::checksum(bytes) != *read.checksum) {
        throw Exception(
            {ErrorCode::kChecksum, 0, "read", "a stored chunk is not what was written"});
      }
    }
    for (const auto& chunk : missing.decodes) {
      std::span<const std::byte> encoded = chunk.encoded;
      if (encoded.empty()) {
        encoded = {memory_.data() + places_[chunk.read], missing.reads[chunk.read].range.bytes};
      } else {
        verified ^= actors::checksum(encoded);
      }
      if (at + chunk_bytes > memory_.bytes()) at = behind_reads_;
      check(codecs_.of(chunk.tier)
                .decode(encoded,
                        shape_.view<std::byte>(chunk.unit, chunk.token_count,
                                               {memory_.data() + at, chunk_bytes}),
                        scratch));
      at += chunk_bytes;
    }
  });
  verified_ ^= verified;
  return cost;
}

}  // namespace mzcache::tools
