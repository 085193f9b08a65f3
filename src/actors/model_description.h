// What the engine knows of a model after reading its metadata: the layer's recipe, where every
// tensor lies in its unit, and which file ranges fill a unit. Nothing of the weights is read.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/ports.h"
#include "actors/units.h"

namespace mzcache::actors {

// ggml tensor types, with their ids in the file.
enum class TensorType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

struct TensorTypeTraits {
  const char* name = "";           // "q4_1"
  std::uint32_t block_values = 0;  // values per block
  std::uint32_t block_bytes = 0;
};
// Traits of a supported type; block_bytes 0 where the type is not supported.
[[nodiscard]] TensorTypeTraits tensor_type_traits(TensorType type) noexcept;

// A tensor inside a unit's buffer. rows × columns, row-major as in the file; a vector has rows = 1.
struct TensorView {
  TensorType type = TensorType::kF32;
  std::uint64_t unit_offset = 0;  // from the start of the unit's buffer
  std::uint32_t rows = 0;         // outputs (GGUF dimension 1)
  std::uint32_t columns = 0;      // inputs (GGUF dimension 0)
  std::uint64_t row_bytes = 0;
  [[nodiscard]] bool present() const noexcept { return rows != 0; }
};

// The tensors a layer can have; absent ones are not present(). Names follow the file's.
enum class LayerTensor : std::uint8_t {
  kAttnNorm,
  kAttnQ,
  kAttnK,
  kAttnV,
  kAttnQBias,
  kAttnKBias,
  kAttnVBias,
  kAttnQNorm,
  kAttnKNorm,
  kAttnOutput,
  kPostAttentionNorm,
  kFfnNorm,
  kFfnGate,
  kFfnUp,
  kFfnDown,
  kPostFfwNorm,
  kCount,
};

struct LayerDescription {
  std::array<TensorView, static_cast<std::size_t>(LayerTensor::kCount)> tensors;
  std::vector<FileRange> ranges;   // what fills the unit, ascending
  std::uint64_t unit_bytes = 0;    // size of the unit's buffer, whole blocks
  std::uint64_t tensor_bytes = 0;  // of its tensors alone
  std::uint32_t window = 0;        // attention window in tokens; 0: all
  bool rope = true;                // some layers of some families go without: see rope_of()
  // The first position that attention at `position` looks at.
  [[nodiscard]] std::uint32_t first_visible(std::uint32_t position) const noexcept {
    return window != 0 && position >= window ? position - window + 1 : 0;
  }
  [[nodiscard]] const TensorView& operator[](LayerTensor tensor) const {
    return tensors[static_cast<std::size_t>(tensor)];
  }
};

// What the gate of a feed-forward block goes through.
enum class Activation : std::uint8_t { kSilu, kGelu };

// The output head with the final norm; its own unit. With tied embeddings `output` is token_embd.
struct HeadDescription {
  TensorView output;
  TensorView norm;
  TensorView rope_freqs;  // not used by kernels: copied to rope.factors when metadata is read
  std::vector<FileRange> ranges;
  std::uint64_t unit_bytes = 0;
  std::uint64_t tensor_bytes = 0;
  bool tied = false;
};

// The input embedding: rows are read singly from the file.
struct EmbeddingDescription {
  TensorType type = TensorType::kF32;
  std::uint64_t file_offset = 0;  // of row 0
  std::uint64_t row_bytes = 0;
  std::uint32_t rows = 0;
  float scale = 1.0F;  // gemma: √hidden
};

struct ModelDescription {
  std::string file;  // path
  std::uint64_t file_bytes = 0;
  std::uint64_t identity = 0;  // hash of header, sizes and modification time
  std::string name;            // general.name
  std::string architecture;    // general.architecture
  std::string chat_template;   // the file's template text, may be empty
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t feed_forward = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t chunk_tokens = kChunkTokens;
  std::uint32_t vocabulary = 0;  // rows of the output head
  std::uint32_t context_length = 0;
  float norm_epsilon = 1e-5F;
  float attention_scale = 0;    // multiplies Q·K; 1/√head_dim unless the family says otherwise
  float attention_softcap = 0;  // 0: none
  float logit_softcap = 0;      // 0: none
  Activation activation = Activation::kSilu;
  RopeDescription rope;
  std::optional<RopeDescription> windowed_rope;  // of layers with a window, where it is another
  std::vector<LayerDescription> layer;
  HeadDescription head;
  EmbeddingDescription embedding;

  [[nodiscard]] ChunkLayout chunk_layout() const noexcept {
    return {ChunkLayout::Order::kTiled, kv_heads, head_dim, chunk_tokens};
  }
  [[nodiscard]] std::uint64_t chunk_bytes() const noexcept { return chunk_layout().bytes(); }
  // How `one` of the layers rotates Q and K; dimensions 0 where it does not.
  [[nodiscard]] const RopeDescription& rope_of(const LayerDescription& one) const noexcept;
  // Whether any layer looks back only so far.
  [[nodiscard]] bool has_windows() const noexcept;
  // Sum of all weight units, the head included.
  [[nodiscard]] std::uint64_t weights_bytes() const noexcept;
};

}  // namespace mzcache::actors
