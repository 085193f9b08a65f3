// From logits to a token.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "engine/tokenizer.h"
#include "mzcache/reports.h"

namespace mzcache::engine {

// Applied in this order: the grammar (tokens it does not allow are out), logit bias, penalties,
// temperature, top-k, top-p, min-p, draw. Penalties and top-k do not depend on the temperature, the
// shares that top-p and min-p look at do.
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
  // `recent`: tokens of the context so far, newest last. `allowed`: one bit per token, lowest
  // first; empty: all. Ties go to the lowest id. -1 where no token is allowed.
  [[nodiscard]] Token sample(std::span<const float> logits, std::span<const Token> recent,
                             std::span<const std::uint64_t> allowed = {});

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
  std::vector<float> scratch_;
  std::vector<std::uint32_t> order_;
};

// The natural logarithms of probabilities, of the logits as the model gave them: the chosen
// token's, and those of the `top` likeliest, likeliest first.
[[nodiscard]] TokenLogprob log_probabilities(std::span<const float> logits, Token chosen,
                                             std::uint32_t top);

}  // namespace mzcache::engine
