// Generating (paper §4.2): one turn as slices of forward passes, each started at once with whatever
// is resident while the rest comes back.
//
//   begin ─▶ slice: chunks, embedding rows ─▶ compute ─▶ committed ─▶ next slice … ─▶ next token …
//
// State: the running turn. Invariant: the context's kv_tokens only ever counts positions whose K
// and V exist in every layer.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/embedding_rows.h"
#include "engine/engine_state.h"
#include "engine/requests.h"

namespace mzcache::engine {

// One turn: what was asked, and how far it got. Between slices it can be set aside and taken up
// again.
struct Turn {
  GenerateRequest request;
  GenerateResult result;
  std::size_t start = 0;  // context tokens before this turn
  StopReason reason = StopReason::kLength;
  actors::Nanoseconds begun{0};
  actors::Nanoseconds first_token{0};
  actors::Nanoseconds last_token{0};
  double wait_ms = 0;
  bool recomputed = false;
  std::uint32_t computed = 0;  // positions that had KV when the turn was set aside
  std::uint32_t start_overs = 0;
};

class Generating {
 public:
  explicit Generating(EngineState& state) : state_(state), rows_(state) {}

  // kContextFull, kBadArgument, kNotFound: the request is refused and nothing changed.
  [[nodiscard]] Error begin(GenerateRequest request);
  // Chunks for the next slice exist from here on; its rows are asked for. Call once nothing
  // computes; the caller lets the restore want what is missing.
  void next_slice();
  void on(const actors::RowsRead& message);
  // Hands the slice to the device. Its embedding rows are there.
  void send_slice();
  // The slice was prepared and not yet handed to the device.
  [[nodiscard]] bool slice_waits() const noexcept { return slice_waits_; }
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
  // Sets the turn aside at a slice boundary, and takes it up again. Its context must not change
  // between the two, but its KV may.
  [[nodiscard]] Turn pause();
  void resume(Turn turn);
  // The context's KV was lost: everything is computed again from the tokens.
  void start_over();
  // The turn ends here: the context is rolled back where the turn produced no token.
  [[nodiscard]] GenerateResult finish(StopReason reason, Error error);

  [[nodiscard]] bool running() const noexcept { return turn_.has_value(); }
  [[nodiscard]] bool computing() const noexcept { return computing_; }
  [[nodiscard]] bool quiet() const noexcept { return !computing_ && rows_pending_ == 0; }
  // The running turn.
  [[nodiscard]] const Turn& turn() const noexcept { return *turn_; }
  [[nodiscard]] std::uint32_t context() const noexcept { return turn_->request.context; }
  [[nodiscard]] const Error& rows_error() const noexcept { return rows_error_; }
  [[nodiscard]] std::uint64_t scratch_bytes() const noexcept { return rows_.bytes(); }

 private:
  void trim(Context& context);
  void commit(const actors::TokenReady& message);
  [[nodiscard]] bool take_token(std::span<const float> logits);

  EngineState& state_;
  EmbeddingRows rows_;
  std::optional<Turn> turn_;
  std::uint32_t first_ = 0;  // position of the slice
  std::uint32_t count_ = 0;  // its tokens
  std::vector<std::uint32_t> wanted_rows_;
  std::uint64_t slice_ = 0;  // number of the slice under way
  bool computing_ = false;
  bool slice_waits_ = false;
  std::uint64_t rows_pending_ = 0;  // number of the slice whose rows are being read
  Error rows_error_;
};

}  // namespace mzcache::engine
