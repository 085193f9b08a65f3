// Rows of the input embedding: read singly from the model file and kept, because the same words
// come again; taken from the output head where that is the same tensor and resident.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "actors/messages.h"
#include "engine/engine_state.h"

namespace mzcache::engine {

class EmbeddingRows {
 public:
  explicit EmbeddingRows(EngineState& state);

  // What must be read before rows() may be called for these tokens; nothing to read: empty rows.
  [[nodiscard]] actors::ReadRows prepare(std::span<const Token> tokens);
  // The read for prepare()'s last answer failed: its rows are not there.
  void forget() { index_.clear(); }
  [[nodiscard]] std::vector<const std::byte*> rows(std::span<const Token> tokens);
  [[nodiscard]] std::uint64_t bytes() const noexcept { return buffer_.size(); }

 private:
  [[nodiscard]] const std::byte* in_head(Token token) const;

  EngineState& state_;
  std::vector<std::byte> buffer_;
  std::unordered_map<Token, std::size_t> index_;  // token → row of the buffer
  std::size_t rows_max_;
};

}  // namespace mzcache::engine
