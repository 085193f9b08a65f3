#include "engine/embedding_rows.h"

namespace mzcache::engine {
namespace {

// Rows kept beyond what one slice needs.
constexpr std::size_t kRowsKept = 1024;

}  // namespace

EmbeddingRows::EmbeddingRows(EngineState& state)
    : state_(state), rows_max_(state.options.slice_tokens_max + kRowsKept) {}

const std::byte* EmbeddingRows::in_head(Token token) const {
  const actors::HeadDescription& head = state_.model.head;
  const actors::UnitId unit = actors::head_unit(state_.model.layers);
  if (!head.tied || !state_.memory.host_coherent() || !state_.residency[unit].resident) {
    return nullptr;
  }
  return state_.memory.bytes(unit).data() + head.output.unit_offset +
         static_cast<std::uint64_t>(token) * head.output.row_bytes;
}

actors::ReadRows EmbeddingRows::prepare(std::span<const Token> tokens) {
  actors::ReadRows message;
  const actors::EmbeddingDescription& embedding = state_.model.embedding;
  if (buffer_.empty()) buffer_.resize(rows_max_ * embedding.row_bytes);
  if (index_.size() + tokens.size() > rows_max_) index_.clear();
  message.buffer = buffer_;
  for (const Token token : tokens) {
    if (in_head(token) != nullptr || index_.contains(token)) continue;
    const std::size_t row = index_.size();
    index_.emplace(token, row);
    message.rows.push_back(
        {actors::FileId::kModel,
         embedding.file_offset + static_cast<std::uint64_t>(token) * embedding.row_bytes,
         row * embedding.row_bytes, embedding.row_bytes});
  }
  return message;
}

std::vector<const std::byte*> EmbeddingRows::rows(std::span<const Token> tokens) {
  std::vector<const std::byte*> rows;
  rows.reserve(tokens.size());
  for (const Token token : tokens) {
    const auto found = index_.find(token);
    rows.push_back(found != index_.end()
                       ? buffer_.data() + found->second * state_.model.embedding.row_bytes
                       : in_head(token));
  }
  return rows;
}

}  // namespace mzcache::engine
