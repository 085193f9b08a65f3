// What the eviction policy knows of this machine, and what it would do: for people and scripts.
// Neither loads a model's weights.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mzcache/config.h"

namespace mzcache {

// Rates of a restore's stages, bytes per second; 0 where not known.
struct ProfileRates {
  double read_bytes_per_s = 0;      // storage into fresh unit buffers
  double decode_bytes_per_s = 0;    // decoded (FP16) bytes, all workers together
  double allocate_bytes_per_s = 0;  // all workers together
};

struct ProfileReport {
  ProfileRates alone;  // the device idle: what plans are made with
  ProfileRates busy;   // the device computing; learnt from restores
  double model_read_bytes_per_s = 0;
  double swap_read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
  double encode_bytes_per_s = 0;
  double decode_cpu_s_per_byte = 0;
  // Of memory.storage_codec, where it is another codec than memory.codec; else 0.
  double storage_decode_bytes_per_s = 0;
  double storage_decode_cpu_s_per_byte = 0;
  double measure_s = 0;  // how long measuring took, when it was done
  bool cached = false;   // read from the file, not measured now
  std::string file;      // where it is kept; "" where it could not be
  std::string key;       // what it was measured on and with

  // With a model; else 0.
  double prefill_tokens_per_s = 0;
  double read_weights_ms = 0;   // t_r(W): one layer's weights (their mean)
  double read_chunk_ms = 0;     // t_r(KV)
  double decode_chunk_ms = 0;   // t_d(KV), without the price of the processor's time
  double decode_priced_ms = 0;  // with it
  double r = 0;                 // t_r(W) / t_d(KV): chunks compressed per layer dropped
  double threshold_chunks = 0;  // T: chunks that take as long as reading all weights
};

// The profile of the configuration's storage, codec and placement, read from its file or, where
// that is missing, stale or `refresh` is set, measured (a second or so). `model` may be "": reads
// are then those of a swap file. With a model its prefill rate is measured too where the file does
// not have it, which computes some hundred tokens. Figures given in the configuration replace
// measured ones. Throws Exception.
[[nodiscard]] ProfileReport measure_profile(
    const Config& config, const std::string& model, bool refresh,
    const std::function<void(std::string_view)>& notice = {});

struct CodecProfileReport {
  std::string file;
  std::uint32_t id = 0;  // named by every chunk that was encoded with it
  std::uint32_t tokens = 0;
  std::uint64_t bytes = 0;
};

// Makes the profile that codecs such as "entropy" and "packed" want of a model, from the first
// 4,096 tokens of `text`, and keeps it for every later run of the model; one that is there is
// replaced. Without this call a runtime makes it from the first 4,096 tokens it computes. Throws
// Exception.
[[nodiscard]] CodecProfileReport make_codec_profile(
    Config config, const std::string& codec, const std::string& model, std::string_view text,
    const std::function<void(std::string_view)>& notice = {});

struct PlanReport {
  std::uint64_t footprint_bytes = 0;
  std::uint64_t weights_bytes = 0;
  std::uint64_t kv_bytes = 0;
  std::uint64_t requested_bytes = 0;
  std::uint64_t freed_bytes = 0;
  double remaining_percent = 100;
  struct Stages {  // steps taken in each
    std::uint32_t out_of_window = 0, recompute = 0, kv_only = 0, kv_and_w = 0, w_only = 0,
                  comp_kv = 0;
  } stages;
  double restore_memory_ms = 0;  // what the two restore paths owe after the plan
  double restore_storage_ms = 0;
  double recompute_ms = 0;  // computing again what is dropped for it
  struct Step {
    std::string
        stage;  // "out_of_window" | "recompute" | "kv_only" | "kv_and_w" | "w_only" | "comp_kv"
    std::string unit;  // "kv" | "weights" | "head"
    std::uint32_t layer = 0;
    std::uint32_t chunk = 0;
    std::string from;         // "resident" | "memory" | "storage" | "dropped"
    std::string to;           // "memory" | "storage" | "dropped" | "recompute"
    std::uint64_t bytes = 0;  // expected to be freed, net
  };
  std::vector<Step> steps;  // in the order they are taken
};

// What an Evict of `amount` would do to the model with everything resident and `context_tokens` in
// one conversation. Throws Exception.
[[nodiscard]] PlanReport plan_eviction(const Config& config, const std::string& model,
                                       std::uint32_t context_tokens, const Amount& amount,
                                       const std::function<void(std::string_view)>& notice = {});

}  // namespace mzcache
