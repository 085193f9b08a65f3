// A pool of equal, aligned buffers handed out as leases: staging for encoded chunks, scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "actors/messages.h"
#include "actors/units.h"

namespace mzcache::actors {

// Thread-safe. Buffers are allocated when first needed and kept until trim() or the pool's end; a
// lease that outlives its pool keeps its buffer valid.
class BufferPool {
 public:
  // Buffers of whole blocks. `memory` outlives the pool and its leases.
  BufferPool(StagingMemory& memory, std::size_t buffer_bytes, std::size_t buffers_max);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Empty where every buffer is out, or memory is short: ask again after a lease came back.
  [[nodiscard]] StagingLease try_acquire() noexcept;

  // Leases not yet back: 0 at shutdown, or something still owns a buffer.
  [[nodiscard]] std::size_t outstanding() const noexcept;
  [[nodiscard]] std::size_t buffers_max() const noexcept;
  [[nodiscard]] std::size_t buffer_bytes() const noexcept;
  // Bytes held now, leased or not.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept;
  // Frees the buffers nobody leases.
  void trim() noexcept;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace mzcache::actors
