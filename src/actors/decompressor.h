// The decompressor (paper §4.3): the in-memory restore path. Verifies an encoded chunk and decodes
// it straight into the unit's shared buffer.
//
// What the in-memory swap holds it also gives memory to, a huge page at a time just before that is
// written, while the fresh page is still in the core's cache; what was read from storage has its
// memory already.
//
// State: scratch for the codec. Invariant: a chunk whose checksum differs is never decoded.
#pragma once

#include <span>
#include <variant>
#include <vector>

#include "actors/actor.h"
#include "actors/kv_shape.h"
#include "actors/messages.h"
#include "actors/timeline.h"

namespace mzcache::actors {

class Decompressor {
 public:
  using Inbox = std::variant<AllocateUnits, DecodeChunk>;
  struct Ports {
    Port<UnitsAllocated> allocated;
    Port<UnitReady> ready;
    Port<UnitFailed> failed;
  };

  Decompressor(SharedMemory& memory, const TierCodecs& codecs, const KvShape& shape,
               const Clock& clock)
      : memory_(memory), codecs_(codecs), shape_(shape), clock_(clock) {}
  void connect(Ports ports) { ports_ = ports; }

  // A run whose units all come from the in-memory swap.
  void on(AllocateUnits&& message) noexcept;
  void on(DecodeChunk&& message) noexcept;

  static Stage stage(const AllocateUnits&) noexcept { return Stage::kDecode; }
  static Stage stage(const DecodeChunk&) noexcept { return Stage::kDecode; }

 private:
  [[nodiscard]] std::size_t piece_end(std::span<const UnitId> units,
                                      std::size_t begin) const noexcept;

  SharedMemory& memory_;
  const TierCodecs codecs_;
  const KvShape& shape_;
  const Clock& clock_;
  Ports ports_;
  std::vector<std::byte> scratch_;
};

}  // namespace mzcache::actors
