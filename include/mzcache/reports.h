// What messages answer with. Times in milliseconds from a monotonic clock, sizes in bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mzcache {

using Token = std::int32_t;

struct EvictReport {
  std::string detail;  // what went wrong, where the error code says so
  std::uint64_t requested_bytes = 0;
  std::uint64_t freed_bytes = 0;    // net: units released minus growth of the in-memory swap
  bool all_there_is = false;        // less than requested was freed because no more is there
  std::int64_t pss_drop_bytes = 0;  // what the process holds, before minus after
  std::uint64_t bytes_written = 0;  // to the swap file
  std::uint64_t bytes_encoded = 0;  // raw bytes of the chunks that were encoded
  std::uint64_t storage_bytes_encoded = 0;  // of these, by memory.storage_codec
  std::uint64_t bytes_compressed = 0;       // what their encoded forms take
  double ms = 0;                            // from message to memory given back
  double remaining_percent = 100;
  // What the two restore paths then owe, by the profile: decoding, and reading from storage.
  double restore_memory_ms = 0;
  double restore_storage_ms = 0;
  struct Units {
    std::uint32_t weights_dropped = 0;
    std::uint32_t head_dropped = 0;
    std::uint32_t kv_compressed = 0;  // resident → in-memory swap
    std::uint32_t kv_stored = 0;      // resident → swap file
    std::uint32_t kv_moved = 0;       // in-memory swap → swap file
    std::uint32_t kv_clean = 0;       // of all these, without I/O or encoding
    std::uint32_t kv_dropped = 0;     // to be recomputed from the token ids
  } units;
};

struct RestoreReport {
  std::string detail;
  std::uint64_t bytes_read = 0;
  std::uint64_t swap_bytes_read = 0;        // of these, from the swap file
  std::uint64_t bytes_decoded = 0;          // raw bytes of decoded chunks
  std::uint64_t storage_bytes_decoded = 0;  // of these, what memory.storage_codec encoded
  std::uint64_t bytes_allocated = 0;
  double allocate_ms = 0;  // stages' own time, summed over workers
  double read_ms = 0;
  double swap_read_ms = 0;  // of this, for the swap file
  double decode_ms = 0;
  double storage_decode_ms = 0;  // of this, for storage_bytes_decoded
  double wait_ms = 0;            // the device stood still for a unit
  double overlap_percent = 0;    // of the restore, while the device computed
  double ms = 0;                 // first command to last unit ready
  bool recomputed = false;       // the context was recomputed from its token ids
};

enum class StopReason : std::uint8_t { kEos, kLength, kStop, kCancelled, kEvicted, kContextFull };
[[nodiscard]] const char* stop_reason_name(StopReason reason) noexcept;  // "eos", "length", …

// How likely a generated token was: natural logarithms of probabilities over the whole vocabulary,
// as the model gave them, before temperature, penalties, grammar and the rest.
struct TokenLogprob {
  Token token = 0;
  float logprob = 0;
  struct Candidate {
    Token token = 0;
    float logprob = 0;
  };
  std::vector<Candidate> top;  // the likeliest, likeliest first
};

struct Answer {
  std::string detail;
  std::vector<Token> tokens;  // generated, the end-of-turn token included
  std::string text;
  StopReason stop = StopReason::kEos;
  std::uint32_t prompt_tokens = 0;   // of this turn
  std::uint32_t context_tokens = 0;  // after this turn
  double ttft_ms = 0;
  double prefill_ms = 0;
  double decode_tokens_per_s = 0;
  std::vector<float> gaps;             // first minus second logit, one per generated token
  std::vector<TokenLogprob> logprobs;  // one per generated token, where they were asked for
  RestoreReport restore;
};

struct LogitRows {
  std::string detail;
  std::uint32_t vocabulary = 0;
  std::vector<float> values;  // one row of `vocabulary` per wanted position
  RestoreReport restore;
};

struct StatusReport {
  std::string detail;
  struct State {
    std::uint32_t units = 0;
    std::uint64_t bytes = 0;  // footprint bytes of the units in this state
  };
  State resident, compressed, stored, dropped;
  std::uint64_t footprint_bytes = 0;
  std::uint64_t weights_bytes = 0;
  std::uint64_t kv_bytes = 0;           // allocated chunks, a started one counts whole
  std::uint64_t memory_swap_bytes = 0;  // in whole segments
  std::uint64_t swap_file_bytes = 0;
  std::uint64_t scratch_bytes = 0;
  std::uint64_t process_bytes = 0;  // PSS
  std::uint64_t floor_bytes = 0;    // process_bytes without units, swap and scratch
  double remaining_percent = 100;
  std::uint32_t context_tokens = 0;  // of all sessions
  std::string activity;              // "idle", "loading", "generating", "restoring", "evicting"
};

struct Done {
  std::string detail;
};

struct LoadReport {
  double metadata_ms = 0;     // load(): reading the file's metadata, opening the device
  double ready_ms = 0;        // until every unit was resident for the first time (0: not yet)
  double first_token_ms = 0;  // from load() to the first token (0: not yet)
};

}  // namespace mzcache
