// A pool of aligned buffers handed out as leases: staging for encoded chunks and embedding rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "actors/messages.h"
#include "actors/units.h"

namespace mzcache::actors {

// Thread-safe. Buffers are cut one after the other from slabs, which are allocated when first
// needed and kept until trim() or the pool's end. One that came back is handed out again before a
// new one is cut. A lease that outlives its pool keeps its buffer valid.
class BufferPool {
 public:
  // Slabs of slab_bytes, or of one larger buffer. kSegmentBytes makes them huge pages, to which
  // direct I/O is several times faster than to small ones. `memory` outlives the pool and its
  // leases.
  BufferPool(StagingMemory& memory, std::size_t slab_bytes, std::size_t leases_max);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least `bytes`, whole blocks. Empty where leases_max are out, or memory is short: ask again
  // after a lease came back.
  [[nodiscard]] StagingLease try_acquire(std::size_t bytes) noexcept;

  // Leases not yet back: 0 at shutdown, or something still owns a buffer.
  [[nodiscard]] std::size_t outstanding() const noexcept;
  // Bytes of slabs held now, leased or not.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept;
  // Frees the slabs of which nothing is leased, and the others as their buffers come back, until
  // one is asked for again.
  void trim() noexcept;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace mzcache::actors
