// The decompressor (paper §4.3): the in-memory restore path. Verifies an encoded chunk and decodes
// it straight into the unit's shared buffer.
//
// State: scratch for the codec. Invariant: a chunk whose checksum differs is never decoded.
#pragma once

#include <variant>
#include <vector>

#include "actors/actor.h"
#include "actors/kv_shape.h"
#include "actors/messages.h"
#include "actors/timeline.h"

namespace mzcache::actors {

class Decompressor {
 public:
  using Inbox = std::variant<DecodeChunk>;
  struct Ports {
    Port<UnitReady> ready;
    Port<UnitFailed> failed;
  };

  Decompressor(SharedMemory& memory, const KvCodec& codec, const KvShape& shape, const Clock& clock)
      : memory_(memory), codec_(codec), shape_(shape), clock_(clock) {}
  void connect(Ports ports) { ports_ = ports; }

  void on(DecodeChunk&& message) noexcept;

  static Stage stage(const DecodeChunk&) noexcept { return Stage::kDecode; }

 private:
  SharedMemory& memory_;
  const KvCodec& codec_;
  const KvShape& shape_;
  const Clock& clock_;
  Ports ports_;
  std::vector<std::byte> scratch_;
};

}  // namespace mzcache::actors
