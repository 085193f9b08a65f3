// The allocator (paper §4.2): gives memory to units ahead of whoever fills them, and takes it back.
//
// Allocation is a real cost (page tables, zeroing), so it has threads of its own and runs ahead of
// the reader, bounded by the coordinator's credits. A run of neighbours is populated at once, so
// that whole 2 MiB pages can be huge.
//
// State: none besides its ports. Invariant: a unit is forwarded only after its memory is there.
#pragma once

#include <variant>
#include <vector>

#include "actors/actor.h"
#include "actors/messages.h"
#include "actors/timeline.h"

namespace mzcache::actors {

class Allocator {
 public:
  using Inbox = std::variant<AllocateUnits, ReleaseUnits>;
  struct Ports {
    Port<ReadUnit> reader;
    std::vector<Port<DecodeChunk>> decompressors;
    Port<UnitsAllocated> allocated;
    Port<UnitReady> ready;
    Port<UnitsReleased> released;
  };

  Allocator(SharedMemory& memory, const Clock& clock) : memory_(memory), clock_(clock) {}
  void connect(Ports ports) { ports_ = std::move(ports); }

  // Populates the run, reports it, and sends each unit on to whoever fills it.
  void on(AllocateUnits&& message) noexcept;
  void on(ReleaseUnits&& message) noexcept;

  static Stage stage(const AllocateUnits&) noexcept { return Stage::kAllocate; }
  static Stage stage(const ReleaseUnits&) noexcept { return Stage::kRelease; }

 private:
  void forward(UnitId unit, Origin&& origin) noexcept;

  SharedMemory& memory_;
  const Clock& clock_;
  Ports ports_;
  std::size_t next_decompressor_ = 0;
};

}  // namespace mzcache::actors
