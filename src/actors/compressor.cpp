#include "actors/compressor.h"

#include "actors/checksum.h"
#include "actors/unit_names.h"

namespace mzcache::actors {

void Compressor::on(CompressChunk&& message) noexcept {
  const Nanoseconds begin = clock_.now();
  const KvCodec& codec = codecs_.of(message.tier);
  scratch_.resize(codec.scratch_bytes(shape_.layout));
  memory_.begin_host_access(message.unit);
  const auto chunk =
      shape_.view<const std::byte>(message.unit, message.token_count, memory_.bytes(message.unit));
  Result<std::uint64_t> encoded = codec.encode(chunk, message.destination, scratch_);
  memory_.end_host_access(message.unit);
  ChunkCompressed report;
  report.unit = message.unit;
  if (encoded) {
    report.encoded_bytes = *encoded;
    report.checksum = checksum(message.destination.first(*encoded));
  } else {
    report.error = encoded.error();
    report.error.context = unit_name(message.unit) + ": " + report.error.context;
  }
  report.busy = clock_.now() - begin;
  ports_.compressed.send(std::move(report));
}

}  // namespace mzcache::actors
