#include "actors/transfer.h"

#include <algorithm>

namespace mzcache::actors {

Transfer::Transfer(std::vector<TransferPiece> pieces, std::uint64_t block_bytes) {
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    bytes_ += piece->bytes;
    // Last block first: waiting_ is taken from its end.
    const std::uint64_t blocks = (piece->bytes + block_bytes - 1) / block_bytes;
    for (std::uint64_t i = blocks; i-- > 0;) {
      const std::uint64_t offset = i * block_bytes;
      const std::uint64_t wanted = std::min(block_bytes, piece->bytes - offset);
      const std::uint64_t span =
          std::min<std::uint64_t>(align_up(wanted, kBlockAlignment), piece->span.size() - offset);
      waiting_.push_back(
          {piece->file, piece->file_offset + offset, piece->span.subspan(offset, span), wanted});
    }
  }
}

const TransferPiece* Transfer::next() noexcept {
  if (!has_next()) return nullptr;
  current_ = waiting_.back();
  waiting_.pop_back();
  ++in_flight_;
  return &current_;
}

void Transfer::fail(Error error) {
  if (!failed()) error_ = std::move(error);
}

void Transfer::completed(const TransferPiece& piece, std::int64_t result,
                         const std::string& file_name, const char* operation) {
  --in_flight_;
  const auto where = [&] { return file_name + " at offset " + std::to_string(piece.file_offset); };
  if (result == -EAGAIN || result == -EINTR) {
    if (++retries_ > kRetriesMax) {
      fail({ErrorCode::kIo, -result, operation, where()});
      return;
    }
    waiting_.push_back(piece);
    return;
  }
  if (result < 0) {
    const ErrorCode code = result == -ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo;
    fail({code, -result, operation, where()});
    return;
  }
  const auto moved = static_cast<std::uint64_t>(result);
  if (moved >= piece.bytes) {
    retries_ = 0;
    return;
  }
  // Short: go on behind the last whole block, which keeps direct I/O aligned.
  const std::uint64_t kept = moved / kBlockAlignment * kBlockAlignment;
  retries_ = kept > 0 ? 0 : retries_ + 1;
  if (retries_ > kRetriesMax || moved == 0) {
    fail({ErrorCode::kIo, 0, operation,
          where() + ": ends " + std::to_string(piece.bytes - moved) + " bytes early"});
    return;
  }
  waiting_.push_back(
      {piece.file, piece.file_offset + kept, piece.span.subspan(kept), piece.bytes - kept});
}

}  // namespace mzcache::actors
