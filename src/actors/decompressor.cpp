#include "actors/decompressor.h"

#include "actors/checksum.h"
#include "actors/unit_names.h"

namespace mzcache::actors {

void Decompressor::on(DecodeChunk&& message) noexcept {
  const Nanoseconds begin = clock_.now();
  if (checksum(message.encoded) != message.checksum) {
    ports_.failed.send(
        UnitFailed{message.unit, Error{ErrorCode::kChecksum, 0, "decode",
                                       unit_name(message.unit) + ": not what was evicted"}});
    return;
  }
  scratch_.resize(codec_.scratch_bytes(shape_.layout));
  const auto chunk =
      shape_.view<std::byte>(message.unit, message.token_count, memory_.bytes(message.unit));
  Result<void> decoded = codec_.decode(message.encoded, chunk, scratch_);
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
