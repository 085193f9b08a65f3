// The compressor (paper §4.3): encodes a chunk that leaves its shared buffer into the in-memory
// swap, so that decoding is the second restore path beside storage; or, with a codec for storage,
// into staging from which it is written.
//
// State: scratch for the codec. Invariant: the chunk's buffer is only read.
#pragma once

#include <variant>
#include <vector>

#include "actors/actor.h"
#include "actors/kv_shape.h"
#include "actors/messages.h"
#include "actors/timeline.h"

namespace mzcache::actors {

class Compressor {
 public:
  using Inbox = std::variant<CompressChunk>;
  struct Ports {
    Port<ChunkCompressed> compressed;
  };

  Compressor(SharedMemory& memory, const TierCodecs& codecs, const KvShape& shape,
             const Clock& clock)
      : memory_(memory), codecs_(codecs), shape_(shape), clock_(clock) {}
  void connect(Ports ports) { ports_ = ports; }

  void on(CompressChunk&& message) noexcept;

  static Stage stage(const CompressChunk&) noexcept { return Stage::kEncode; }

 private:
  SharedMemory& memory_;
  const TierCodecs codecs_;
  const KvShape& shape_;
  const Clock& clock_;
  Ports ports_;
  std::vector<std::byte> scratch_;
};

}  // namespace mzcache::actors
