#include "actors/decompressor.h"

#include "actors/checksum.h"
#include "actors/unit_names.h"

namespace mzcache::actors {

void Decompressor::on(AllocateUnits&& message) noexcept {
  const auto& units = message.units;
  for (std::size_t begin = 0, end = 0; begin < units.size(); begin = end) {
    end = piece_end(units, begin);
    UnitsAllocated report;
    report.units.assign(units.begin() + begin, units.begin() + end);
    const Nanoseconds before = clock_.now();
    Result<void> populated = memory_.populate(report.units);
    report.busy = clock_.now() - before;
    if (!populated) report.error = populated.error();
    ports_.allocated.send(std::move(report));
    for (std::size_t i = begin; populated && i < end; ++i) {
      on(decode_from_memory(units[i], std::get<MemoryOrigin>(message.origins[i])));
    }
  }
}

// The first units from `begin` on that end where a huge page does; else all of them. A layer's
// chunks of a context lie side by side from such a border on.
std::size_t Decompressor::piece_end(std::span<const UnitId> units,
                                    std::size_t begin) const noexcept {
  const std::uint64_t chunk = align_up(shape_.layout.bytes(), kBlockAlignment);
  for (std::size_t i = begin; i < units.size(); ++i) {
    if ((units[i].chunk + 1) * chunk % kSegmentBytes == 0) return i + 1;
  }
  return units.size();
}

void Decompressor::on(DecodeChunk&& message) noexcept {
  const Nanoseconds begin = clock_.now();
  if (checksum(message.encoded) != message.checksum) {
    ports_.failed.send(
        UnitFailed{message.unit, Error{ErrorCode::kChecksum, 0, "decode",
                                       unit_name(message.unit) + ": not what was evicted"}});
    return;
  }
  const KvCodec& codec = codecs_.of(message.tier);
  scratch_.resize(codec.scratch_bytes(shape_.layout));
  const auto chunk =
      shape_.view<std::byte>(message.unit, message.token_count, memory_.bytes(message.unit));
  Result<void> decoded = codec.decode(message.encoded, chunk, scratch_);
  if (!decoded) {
    decoded.error().context = unit_name(message.unit) + ": " + decoded.error().context;
    ports_.failed.send(UnitFailed{message.unit, std::move(decoded.error())});
    return;
  }
  memory_.end_host_access(message.unit);
  UnitReady ready;
  ready.unit = message.unit;
  ready.bytes_read = message.bytes_read;
  ready.read = message.read;
  ready.bytes_decoded = shape_.layout.bytes();
  ready.decode = clock_.now() - begin;
  ports_.ready.send(ready);
}

}  // namespace mzcache::actors
