// What an app sends. Every message names its report; see runtime.h for how to send.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mzcache/config.h"
#include "mzcache/reports.h"

namespace mzcache {

// A conversation: its tokens and KV cache. A handle; valid while its Runtime lives.
struct Session {
  std::uint32_t id = 0;
};

// Free at least so many bytes now, wherever they are (paper §4.3). Wins over Restore and Generate
// at the next layer boundary.
struct Evict {
  using Report = EvictReport;
  Evict() = default;
  explicit Evict(std::uint64_t bytes) { amount.bytes = bytes; }
  explicit Evict(Amount wanted) : amount(wanted) {}
  Amount amount;
  // Milliseconds this may take, 0: as long as it takes. What cannot be encoded or written in time
  // is dropped: its context is computed again from its tokens when it is needed.
  double deadline_ms = 0;
};

// Bring everything back, or only the first `bytes` of it in the order a forward pass needs them (a
// prefetch, when the user seems to return). Waits for a running Evict.
struct Restore {
  using Report = RestoreReport;
  std::uint64_t bytes = 0;  // 0: everything
  // False: the forms that the swap file and the in-memory swap still hold of what is resident then
  // are given up. Their room is free for other chunks; the next Evict writes or encodes again.
  bool keep_copies = true;
};

// What becomes of a Generate that an Evict interrupts.
enum class OnEvict : std::uint8_t {
  kStop,    // it completes with stop "evicted", its tokens kept
  kResume,  // it pauses, and goes on after policy.resume_delay
};

// Whether a model that can think before it answers does so.
enum class Thinking : std::uint8_t { kDefault, kOn, kOff };

// Sampling applies in this order: grammar, logit bias, penalties, temperature, top-k, top-p, min-p,
// draw.
struct GenerateOptions {
  std::function<void(std::string_view)> on_token =
      {};  // whole characters, on the caller's executor
  std::uint32_t max_tokens = 512;
  float temperature = 0.0F;  // 0: greedy
  std::uint32_t top_k = 0;   // 0: all
  float top_p = 1.0F;
  float min_p = 0.0F;
  // Of tokens among the last repeat_last of the context: positive logits are divided by
  // repeat_penalty, others multiplied; frequency_penalty is taken off for every occurrence,
  // presence_penalty once.
  float repeat_penalty = 1.0F;
  float frequency_penalty = 0.0F;
  float presence_penalty = 0.0F;
  std::uint32_t repeat_last = 64;
  std::vector<std::pair<Token, float>> logit_bias = {};  // ids the model has, else kBadArgument
  std::uint64_t seed = 0;                                // 0: drawn at random
  std::vector<std::string> stop = {};                    // stop strings; not part of the text
  // GBNF (see mzcache/grammar.h): the answer is a text of the grammar, unless it ends early. "":
  // any.
  std::string grammar = {};
  // At least 0: Answer::logprobs says how likely each token was, beside so many of the likeliest.
  std::int32_t logprobs = -1;
  std::string system = {};           // first turn only; empty: the template's default
  bool raw = false;                  // no chat template; special tokens parsed
  std::uint32_t slice_tokens = 512;  // prefill slice
  OnEvict on_evict = OnEvict::kStop;
};

// Answer a user's turn; restores whatever is missing while the device already computes.
struct Generate {
  using Report = Answer;
  Session session;
  std::string prompt = {};
  GenerateOptions options;
  std::vector<Token> tokens = {};  // not empty: sent as they are, `prompt` is ignored
};

// Prefill tokens and return the logits at some of them. Positions count from this message's first
// token.
struct Evaluate {
  using Report = LogitRows;
  Session session;
  std::vector<Token> tokens = {};
  std::vector<std::uint32_t> positions = {};
  std::uint32_t slice_tokens = 512;
};

// What is where. Answered at once, whatever else is running.
struct Status {
  using Report = StatusReport;
};

// Forget the session's conversation; its memory is freed.
struct Reset {
  using Report = Done;
  Session session;
};

}  // namespace mzcache
