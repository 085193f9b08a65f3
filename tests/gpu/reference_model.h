// Small models with random weights of every family's shape, and a slow forward pass over them.
#pragma once

#include "gpu/forward_harness.h"
#include "gpu/reference_kernels.h"

namespace mzcache::test {

struct ModelOptions {
  actors::TensorType type = actors::TensorType::kF16;
  std::uint32_t head_dim = 32;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  bool norms_before = true;
  bool norms_behind = false;
  bool head_norms = false;
  bool biases = false;
  bool gelu = false;
  bool split_halves = false;
  bool rope_every_layer = true;  // else only even ones
  std::uint32_t window = 0;      // of even layers
  float windowed_rope_base = 0;  // of layers with a window, where not 0
  float attention_softcap = 0;
  float logit_softcap = 0;
  float embedding_scale = 1;
};

[[nodiscard]] ModelBytes make_random_model(const ModelOptions& options, std::uint64_t seed);
// Logits at every position.
[[nodiscard]] std::vector<std::vector<double>> reference_logits(
    const ModelBytes& model, std::span<const std::uint32_t> tokens);

}  // namespace mzcache::test
