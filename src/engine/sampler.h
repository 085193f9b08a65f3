// From logits to a token.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "engine/tokenizer.h"

namespace mzcache::engine {

// Applied in this order: logit bias, penalties, temperature, top-k, top-p, min-p, draw.
struct SamplingOptions {
  float temperature = 0.0F;  // 0: greedy
  std::uint32_t top_k = 0;   // 0: all
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repeat_penalty = 1.0F;  // 1: none; over the last repeat_last tokens
  float frequency_penalty = 0.0F;
  float presence_penalty = 0.0F;
  std::uint32_t repeat_last = 64;
  std::vector<std::pair<Token, float>> logit_bias;
  std::uint64_t seed = 0;  // 0: drawn at random
};

class Sampler {
 public:
  explicit Sampler(SamplingOptions options);
  // `recent`: tokens of the context so far, newest last. Ties go to the lowest id.
  [[nodiscard]] Token sample(std::span<const float> logits, std::span<const Token> recent);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
  std::vector<float> scratch_;
  std::vector<std::uint32_t> order_;
};

}  // namespace mzcache::engine
