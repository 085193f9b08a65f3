// The storage writer (paper §4.3): sends chunks to the swap file, raw from their shared buffers,
// encoded from the in-memory swap, or encoded from the staging they come with, by direct writes.
//
// State: writes in the order they came; the requests in flight. Invariant: a chunk's slot is
// allocated on disk before it is written, and its buffer is given up only after the completion.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <variant>

#include "actors/actor.h"
#include "actors/buffer_pool.h"
#include "actors/kv_shape.h"
#include "actors/messages.h"
#include "actors/timeline.h"
#include "actors/transfer.h"

namespace mzcache::actors {

// Chunks out of the in-memory swap that may be at the writer at once: each is copied to aligned
// memory.
inline constexpr std::size_t kEncodedWritesMax = 16;

class StorageWriter {
 public:
  using Inbox = std::variant<WriteChunk, WritesOver>;
  struct Ports {
    Port<ChunkWritten> written;
  };

  StorageWriter(BlockDevice& device, SharedMemory& memory, const KvShape& shape, const Clock& clock,
                Timeline& timeline, const std::string& track);
  void connect(Ports ports) { ports_ = ports; }
  [[nodiscard]] WaitSource* wait_source() noexcept { return &device_; }

  void on(WriteChunk&& message) noexcept;
  void on(WritesOver&&) noexcept { staging_.trim(); }
  void on_device() noexcept;
  [[nodiscard]] bool idle() const noexcept { return in_flight_.empty() && writes_.empty(); }

 private:
  struct Write;
  struct Request {
    std::shared_ptr<Write> write;
    TransferPiece piece;
  };

  void reap() noexcept;
  void submit_more() noexcept;
  void finish(Write& write) noexcept;

  BlockDevice& device_;
  SharedMemory& memory_;
  const KvShape& shape_;
  const Clock& clock_;
  Timeline& timeline_;
  std::uint32_t track_;
  Ports ports_;
  BufferPool staging_;  // what lies in the in-memory swap is copied to aligned memory
  std::deque<std::shared_ptr<Write>> writes_;
  std::unordered_map<std::uint64_t, Request> in_flight_;
  std::uint64_t next_tag_ = 1;
};

}  // namespace mzcache::actors
