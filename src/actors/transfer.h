// One transfer between a file and memory, split into requests of the device's block size, asked
// again where the device answered short or busy. Shared by the reader and the writer.
#pragma once

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "actors/ports.h"

namespace mzcache::actors {

// A piece of a transfer. Offsets and addresses are aligned; `bytes` must arrive, `span` covers them
// rounded up to the alignment.
struct TransferPiece {
  FileId file = FileId::kModel;
  std::uint64_t file_offset = 0;
  std::span<std::byte> span;
  std::uint64_t bytes = 0;
};

// Requests that answered with EAGAIN, EINTR or nothing at all, in a row, before the transfer gives
// up.
inline constexpr std::uint32_t kRetriesMax = 32;

// The requests of one transfer: hands out the next piece to submit, takes completions, says when
// all is done. Not thread-safe; owned by one actor.
class Transfer {
 public:
  Transfer() = default;
  explicit Transfer(std::vector<TransferPiece> pieces, std::uint64_t block_bytes);

  // The next request, or nullptr where everything was handed out. Valid until the next call.
  [[nodiscard]] const TransferPiece* next() noexcept;
  // A request that was handed out completed with `result` (bytes or negative errno). What is
  // missing is queued again. After an error nothing more is handed out.
  void completed(const TransferPiece& piece, std::int64_t result, const std::string& file_name,
                 const char* operation);
  void fail(Error error);

  [[nodiscard]] bool has_next() const noexcept { return !failed() && !waiting_.empty(); }
  [[nodiscard]] bool failed() const noexcept { return error_.code != ErrorCode::kOk; }
  // Nothing in flight and nothing left to hand out.
  [[nodiscard]] bool finished() const noexcept {
    return in_flight_ == 0 && (failed() || waiting_.empty());
  }
  [[nodiscard]] const Error& error() const noexcept { return error_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::vector<TransferPiece> waiting_;  // the next one last
  TransferPiece current_;
  std::size_t in_flight_ = 0;
  std::uint32_t retries_ = 0;
  std::uint64_t bytes_ = 0;
  Error error_;
};

}  // namespace mzcache::actors
