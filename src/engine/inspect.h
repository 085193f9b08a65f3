// What a model file holds, for people and scripts: works for every architecture and for
// vocabularies without weights; what only a computable model has (units) is absent with the reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/gguf.h"
#include "mzcache/errors.h"

namespace mzcache::engine {

struct ModelInfo {
  struct TensorTypeUse {
    std::string type;  // "q4_1"
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
  };
  // Absent where the file does not say.
  struct Sizes {
    std::optional<std::uint64_t> layers;
    std::optional<std::uint64_t> hidden;
    std::optional<std::uint64_t> feed_forward;
    std::optional<std::uint64_t> heads;
    std::optional<std::uint64_t> kv_heads;
    std::optional<std::uint64_t> head_dim;
    std::optional<std::uint64_t> vocabulary;
    std::optional<std::uint64_t> context_length;
  };
  struct Tokenizer {
    std::string model;
    std::string pre;
    std::uint64_t tokens = 0;
    std::uint64_t merges = 0;
    std::optional<std::uint64_t> bos;
    std::optional<std::uint64_t> eos;
    bool chat_template = false;
  };
  struct Unit {
    std::string kind;         // "weights" or "head"
    std::uint32_t layer = 0;  // the head's is the number of layers
    std::uint64_t bytes = 0;  // of its buffer
    std::uint64_t tensor_bytes = 0;
    std::uint64_t ranges = 0;  // pieces of the file it is read from
    std::uint32_t window = 0;  // attention window of the layer in tokens, 0: all
  };
  struct Units {
    std::vector<Unit> units;  // forward order, the head last
    std::uint64_t weights_bytes = 0;
    std::uint64_t kv_chunk_bytes = 0;
    std::uint32_t chunk_tokens = 0;
    bool tied_head = false;
  };

  std::string file;
  std::uint64_t file_bytes = 0;
  std::uint32_t gguf_version = 0;
  std::string architecture;
  std::string name;
  Sizes sizes;
  std::uint64_t parameters = 0;  // values in all tensors
  std::uint64_t tensors = 0;
  std::uint64_t tensor_bytes = 0;
  std::vector<TensorTypeUse> tensor_types;  // by bytes, largest first
  Tokenizer tokenizer;
  std::optional<std::uint64_t> kv_bytes_per_token;  // FP16, all layers
  bool tied_embeddings = false;  // there is no output matrix beside the embedding
  std::optional<Units> units;
  std::string units_absent;  // why there are none
};

// Metadata keys of the wrong type are errors; absent ones are absent in the result.
[[nodiscard]] Result<ModelInfo> inspect_model(const GgufFile& file);

}  // namespace mzcache::engine
