// Generating (paper §4.2): one turn as slices of forward passes, each started at once with whatever
// is resident while the rest comes back.
//
//   begin ─▶ slice: chunks, embedding rows ─▶ compute ─▶ committed ─▶ next slice … ─▶ next token …
//
// State: the running turn. Invariant: the context's kv_tokens only ever counts positions whose K and V
// exist in every layer.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/embedding_rows.h"
#include "engine/engine_state.h"
#include "engine/requests.h"

namespace mzcache::engine {

class Generating {
 public:
  explicit Generating(EngineState& state) : state_(state), rows_(state) {}

  // kContextFull, kBadArgument, kNotFound: the request is refused and nothing changed.
  [[nodiscard]] Error begin(GenerateRequest request);
  // Chunks for the next slice exist from here on; its rows are asked for. Call once nothing computes;
  // the caller lets the restore want what is missing.
  void next_slice();
  void on(const actors::RowsRead& message);
  // Hands the slice to the device. Its embedding rows are there.
  void send_slice();
  // True where next_slice() found every row and nothing is being read.
  [[nodiscard]] bool rows_ready() const noexcept { return rows_pending_ == 0; }
  // A part of a layer arrived.
  void part_ready(std::uint32_t layer, actors::LayerPart part);
  // The slice is done. True where another slice follows, false where the turn is over.
  [[nodiscard]] bool slice_done(const actors::TokenReady& message);
  // Ends the device's work at the next layer boundary.
  void stop();
  // The device stopped: nothing of the slice counts.
  void slice_stopped(const actors::TokenReady& message);
  // The context's KV was lost: everything is computed again from the tokens.
  void start_over();
  // The turn ends here: the context is rolled back where the turn produced no token.
  [[nodiscard]] GenerateResult finish(StopReason reason, Error error);

  [[nodiscard]] bool running() const noexcept { return request_.has_value(); }
  [[nodiscard]] bool computing() const noexcept { return computing_; }
  [[nodiscard]] bool quiet() const noexcept { return !computing_ && rows_pending_ == 0; }
  [[nodiscard]] std::uint64_t id() const noexcept { return request_ ? request_->id : 0; }
  [[nodiscard]] std::uint32_t context() const noexcept { return request_->context; }
  [[nodiscard]] const GenerateRequest& request() const noexcept { return *request_; }
  [[nodiscard]] const Error& rows_error() const noexcept { return rows_error_; }
  [[nodiscard]] std::uint64_t scratch_bytes() const noexcept { return rows_.bytes(); }
  [[nodiscard]] StopReason stop_reason() const noexcept { return reason_; }
  [[nodiscard]] actors::Nanoseconds first_token() const noexcept { return first_token_; }
  [[nodiscard]] double wait_ms() const noexcept { return wait_ms_; }
  [[nodiscard]] bool recomputed() const noexcept { return recomputed_; }
  [[nodiscard]] std::uint32_t start_overs() const noexcept { return start_overs_; }

 private:
  void commit(const actors::TokenReady& message);
  [[nodiscard]] bool take_token(std::span<const float> logits);

  EngineState& state_;
  EmbeddingRows rows_;
  std::optional<GenerateRequest> request_;
  GenerateResult result_;
  std::size_t turn_start_ = 0;       // context tokens before this turn
  std::uint32_t first_ = 0;          // position of the slice
  std::uint32_t count_ = 0;          // its tokens
  std::vector<std::uint32_t> wanted_rows_;
  std::uint64_t slice_ = 0;          // number of the slice under way
  bool computing_ = false;
  std::uint64_t rows_pending_ = 0;   // number of the slice whose rows are being read
  Error rows_error_;
  StopReason reason_ = StopReason::kLength;
  actors::Nanoseconds begun_{0};
  actors::Nanoseconds first_token_{0};
  actors::Nanoseconds last_token_{0};
  double wait_ms_ = 0;
  bool recomputed_ = false;
  std::uint32_t start_overs_ = 0;
};

}  // namespace mzcache::engine
