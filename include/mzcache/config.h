// The configuration: every key of the TOML file, with its default. Unknown keys and bad values are
// errors that name the key, the line and the allowed values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mzcache/errors.h"

namespace mzcache {

// Where one kind of actor runs.
struct PlacementConfig {
  std::string cores = "any";            // big | middle | little | any
  std::vector<std::uint32_t> core_ids;  // explicit cores; win over the class
  std::uint32_t workers = 0;            // 0: auto
};

struct Config {
  struct Placement {
    PlacementConfig storage_reader{"big", {}, 0};
    PlacementConfig storage_writer{"little", {}, 0};
    PlacementConfig decompressor{"big", {}, 0};
    PlacementConfig compressor{"middle", {}, 0};
    PlacementConfig allocator{"middle", {}, 0};
    PlacementConfig prefill{"any", {}, 0};
  } placement;

  struct Memory {
    std::string codec = "q8";            // in-memory swap
    std::string storage_codec = "none";  // chunks that go straight to the swap file; none: raw
    std::string swap_directory = "/var/tmp";
    std::uint64_t swap_file_max = std::uint64_t{8} << 30;  // bytes
    // What compressed chunks may take: a share of the KV cache, or bytes where not 0.
    double memory_swap_max_percent = 100.0;
    std::uint64_t memory_swap_max_bytes = 0;
    std::uint64_t keep_compressed = 0;  // bytes
    // Attention reads full chunks in the in-memory swap as they lie there: nothing is decoded
    // before the first token. Needs codec "q8" and the cpu kernels.
    bool compressed_attention = false;
    bool free_out_of_window = true;
    bool huge_pages = true;
  } memory;

  struct Policy {
    std::string order = "backward-out";  // backward-out | forward-out | random-out | optimal
    std::uint64_t seed = 1;
    std::string paths = "hybrid";  // hybrid | memory | storage
    bool recompute = false;        // KV that is computed again sooner than it comes back is dropped
    double cpu_price = -1;         // -1: auto
    double resume_delay_s = 2.0;
  } policy;

  struct Overlap {
    bool allocation = true;
    bool reload = true;
    bool prefill = true;
  } overlap;

  struct Storage {
    std::uint64_t block = std::uint64_t{1} << 20;  // bytes
    std::uint32_t depth = 8;
    bool direct = true;
    std::string engine = "io_uring";      // io_uring | threads
    std::uint64_t limit_bytes_per_s = 0;  // 0: none
  } storage;

  struct Profile {
    std::string file;
    double read_bytes_per_s = 0;  // 0: measured
    double decode_bytes_per_s = 0;
    double storage_decode_bytes_per_s = 0;  // of memory.storage_codec, where it is another codec
    double allocate_bytes_per_s = 0;
    double prefill_tokens_per_s = 0;
  } profile;

  struct Device {
    std::string name;                  // substring; empty: best available
    std::string kernels = "auto";      // auto | portable | cpu
    std::string pin_workers = "auto";  // auto | true | false
    std::string activations = "auto";  // auto | float | int8
  } device;

  struct Trace {
    std::string file;
  } trace;

  // Parsed file over the defaults. Throws Exception (kBadConfig names file, line, key, allowed).
  [[nodiscard]] static Config load(const std::string& path);
  // One "key=value" as on the command line ("storage.depth=16"). Throws Exception.
  void set(std::string_view assignment);
};

// "512MiB", "1.5GiB", "300MB", "4096" → bytes. "50%" is not a size (see Amount).
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);
// "8k" = 8192, "3000" → tokens.
[[nodiscard]] Result<std::uint32_t> parse_tokens(std::string_view text);

// Bytes, or a share of the current full footprint.
struct Amount {
  std::uint64_t bytes = 0;
  double percent = -1;  // ≥ 0: of the footprint; bytes is then ignored
};
// A size, a percentage ("50%"), or "none" (0 bytes).
[[nodiscard]] Result<Amount> parse_amount(std::string_view text);

}  // namespace mzcache
