// What a model file holds and what devices there are, for people and scripts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mzcache/errors.h"

namespace mzcache {

// Numbers that the file does not tell are 0.
struct ModelInfo {
  std::string file;
  std::uint64_t file_bytes = 0;
  std::string name;
  std::string architecture;
  std::uint32_t gguf_version = 0;
  std::uint64_t parameters = 0;
  std::uint32_t layers = 0, hidden = 0, feed_forward = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::uint32_t vocabulary = 0, context_length = 0;
  bool tied_embeddings = false;
  struct TypeUse {
    std::string type;
    std::uint32_t tensors = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<TypeUse> tensor_types;
  std::string tokenizer_model, tokenizer_splitter;
  std::uint32_t tokenizer_tokens = 0;
  std::string chat_template;  // the family it is read as, "raw" where there is none
  struct Unit {
    std::string name;  // "layer 0", "head"
    std::uint64_t bytes = 0;
    std::uint32_t window = 0;  // attention window of the layer in tokens, 0: all
  };
  std::vector<Unit> units;          // empty where the file cannot be computed
  std::string unsupported;          // why not, empty where it can
  std::uint64_t weights_bytes = 0;  // of the units; of all tensors where there are no units
  std::uint64_t chunk_bytes = 0;    // one KV chunk of one layer
  std::uint64_t kv_bytes_per_token = 0;
};

// Reads the metadata only. Throws Exception (which file, field, limit).
[[nodiscard]] ModelInfo inspect(const std::string& file);

struct DeviceSummary {
  std::string name;
  std::string platform, version, driver;
  std::string svm;          // kind of shared virtual memory
  std::string memory;       // how units would be held
  std::string granularity;  // "chunk" | "layer": the smallest thing evicted
  std::string kernels;      // "portable" | "cpu": the set it gets unless the configuration says
  std::uint32_t compute_units = 0, float_width = 0;
  bool cpu = false, fp16 = false, subgroups = false;
  bool dot_products = false;  // integer dot products in one instruction, where the cpu set runs
};
struct CoreSummary {
  std::uint32_t id = 0;
  std::string core_class;  // big | middle | little | any
  std::uint64_t capacity = 0;
};
struct SystemInfo {
  std::vector<DeviceSummary> devices;  // the best one first
  std::vector<CoreSummary> cores;
};
[[nodiscard]] SystemInfo list_system();

}  // namespace mzcache
