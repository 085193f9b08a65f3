// What reaches the coordinator from outside, and how it answers. Every request is answered exactly
// once, on the coordinator's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/ports.h"
#include "mzcache/errors.h"
#include "mzcache/reports.h"

namespace mzcache::engine {

struct EngineState;

// Chooses the tokens of an answer. Called on the coordinator's thread; must not block.
class TokenSource {
 public:
  struct Decision {
    Token token = 0;                 // becomes part of the context
    std::optional<StopReason> stop;  // the answer ends with this token
  };
  virtual ~TokenSource() = default;
  // `logits` after all of `tokens` (the whole context so far).
  [[nodiscard]] virtual Decision next(std::span<const float> logits,
                                      std::span<const Token> tokens) noexcept = 0;
};

// The tokens, times and rows of a finished (or interrupted) generation; text is the caller's.
struct GenerateResult {
  Error error;
  Answer answer;
  std::vector<float> rows;  // Evaluate: one row per wanted position
};

// Set when the request is cancelled, before the CancelRequest is sent: that one may come from
// another thread and overtake the request. May be empty.
using Cancelled = std::shared_ptr<const std::atomic<bool>>;

struct OpenContext {
  std::uint32_t context = 0;
  std::uint32_t tokens_max = 0;
  std::function<void(Error)> done;
};
// Forget the conversation; its memory is freed.
struct ResetContext {
  std::uint32_t context = 0;
  std::function<void(Error)> done;
};
// Benchmarks and simulations arrange a state (contexts without a prefill, another policy): called
// on the coordinator's thread, in turn with the other requests, while nothing moves.
struct ArrangeRequest {
  std::function<void(EngineState&)> arrange;
  std::function<void()> done;
};
struct GenerateRequest {
  std::uint64_t id = 0;
  Cancelled cancelled;
  std::uint32_t context = 0;
  std::vector<Token> tokens;  // appended to the context, then computed
  // Where set, makes `tokens` when the turn begins, from the context before it.
  std::function<std::vector<Token>(std::span<const Token> context)> make_tokens;
  std::shared_ptr<TokenSource> source;   // empty: nothing is generated
  std::vector<std::uint32_t> positions;  // rows wanted, offsets into `tokens`, ascending
  std::uint32_t slice_tokens = 512;
  bool resume_after_evict = false;  // pauses instead of ending
  actors::Nanoseconds accepted{0};  // when the message came
  std::function<void(GenerateResult)> done;
};
struct EvictRequest {
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
  double percent = -1;              // ≥ 0: of the footprint, bytes is ignored
  actors::Nanoseconds deadline{0};  // from `accepted`; 0: none
  actors::Nanoseconds accepted{0};
  std::function<void(Error, EvictReport)> done;
};
struct RestoreRequest {
  std::uint64_t id = 0;
  Cancelled cancelled;
  std::uint64_t bytes = 0;  // only the first of what is missing; 0: everything
  bool keep_copies = true;  // false: forms of resident chunks are given up at the end
  actors::Nanoseconds accepted{0};
  std::function<void(Error, RestoreReport)> done;
};
struct StatusRequest {
  std::function<void(StatusReport)> done;
};
// A queued request is answered with kCancelled; a running one stops within a layer.
struct CancelRequest {
  std::uint64_t id = 0;
};
// The coordinator to itself, through its timer: the pause of an interrupted turn is over.
struct ResumePaused {
  std::uint64_t id = 0;
};
// Cancels everything and refuses what comes later; `done` when all is quiet.
struct Shutdown {
  std::function<void()> done;
};

}  // namespace mzcache::engine
