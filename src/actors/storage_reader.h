// The storage reader (paper §4.2): brings units back from the model file and the swap file by
// direct I/O, straight into their shared buffers, with the device's queue kept full.
//
// It waits on its inbox and its device at once. State: reads in the order they came; the requests
// in flight. Invariant: a buffer named by a request in flight is never given up before its
// completion.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include "actors/actor.h"
#include "actors/buffer_pool.h"
#include "actors/kv_shape.h"
#include "actors/messages.h"
#include "actors/timeline.h"
#include "actors/transfer.h"

namespace mzcache::actors {

class StorageReader {
 public:
  using Inbox = std::variant<ReadUnit, ReadRows>;
  struct Ports {
    std::vector<Port<DecodeChunk>> decompressors;
    Port<UnitReady> ready;
    Port<UnitFailed> failed;
    Port<RowsRead> rows_read;
  };

  StorageReader(BlockDevice& device, SharedMemory& memory, const KvShape& shape, const Clock& clock,
                Timeline& timeline, const std::string& track);
  void connect(Ports ports) { ports_ = std::move(ports); }
  [[nodiscard]] WaitSource* wait_source() noexcept { return &device_; }

  void on(ReadUnit&& message) noexcept;
  // Rows of the embedding come before units: the device cannot begin without them.
  void on(ReadRows&& message) noexcept;
  // Completions arrived, or there is room for more requests.
  void on_device() noexcept;
  [[nodiscard]] bool idle() const noexcept { return in_flight_.empty() && reads_.empty(); }

 private:
  struct Read;
  struct Request {
    std::shared_ptr<Read> read;
    TransferPiece piece;
  };

  void submit_more() noexcept;
  [[nodiscard]] bool stage(Read& read) noexcept;
  void reap() noexcept;
  void finish(Read& read) noexcept;
  void finish_unit(Read& read) noexcept;
  void finish_rows(Read& read) noexcept;
  [[nodiscard]] std::shared_ptr<Read> read_rows(std::span<const FileRange> rows,
                                                std::span<std::byte> buffer) noexcept;
  void row_part_done(Error error) noexcept;
  void trim() noexcept;
  void count(const char* what, std::size_t now, std::size_t& before) noexcept;
  void count_busy(FileId file) noexcept;
  [[nodiscard]] Nanoseconds take_busy(FileId file) noexcept;

  BlockDevice& device_;
  SharedMemory& memory_;
  const KvShape& shape_;
  const Clock& clock_;
  Timeline& timeline_;
  std::uint32_t track_;
  Ports ports_;
  BufferPool chunk_staging_;
  BufferPool row_staging_;
  std::uint64_t rows_request_ = 0;  // the rows being read, their parts and first error
  std::size_t row_parts_ = 0;
  Error rows_error_;
  std::deque<std::shared_ptr<Read>> reads_;               // with something left to submit
  std::unordered_map<std::uint64_t, Request> in_flight_;  // by tag
  std::uint64_t next_tag_ = 1;
  std::size_t next_decompressor_ = 0;
  // As the trace has them.
  std::size_t counted_in_flight_ = 0;
  std::size_t counted_left_ = 0;
  // Time with requests in flight that was not reported yet, by file: what passes between two
  // completions belongs to the latter's.
  std::array<Nanoseconds, 2> busy_{};
  Nanoseconds busy_since_{0};  // the last completion, or the first request
};

}  // namespace mzcache::actors
