// Logarithms of probabilities, and sampling among allowed tokens only.
#include <cmath>
#include <limits>
#include <random>

#include "engine/sampler.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("log-probabilities are of the whole vocabulary, the likeliest first") {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F, 3.0F};
  const double sum = std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0);
  const auto found = log_probabilities(logits, 2, 3);
  CHECK(found.token == 2);
  CHECK(found.logprob == Approx(2.0 - std::log(sum)));
  REQUIRE(found.top.size() == 3);
  CHECK(found.top[0].token == 1);  // of equals the lowest id
  CHECK(found.top[1].token == 3);
  CHECK(found.top[2].token == 2);
  CHECK(found.top[0].logprob == Approx(3.0 - std::log(sum)));
  CHECK(log_probabilities(logits, 2, 0).top.empty());
  CHECK(log_probabilities(logits, 2, 9).top.size() == 4);
}

TEST_CASE("log-probabilities of large, infinite and missing logits") {
  const std::vector<float> large(5, 3e38F);
  CHECK(log_probabilities(large, 0, 1).logprob == Approx(-std::log(5.0)));
  const std::vector<float> odd = {0.0F, -kInfinity, kNan, 1000.0F};
  CHECK(log_probabilities(odd, 3, 0).logprob == Approx(0.0).margin(1e-6));
  CHECK(log_probabilities(odd, 1, 0).logprob == -kInfinity);
  CHECK(log_probabilities(odd, 2, 0).logprob == -kInfinity);
  CHECK(log_probabilities(odd, 0, 0).logprob == Approx(-1000.0));
}

TEST_CASE("random log-probabilities sum to one") {
  const std::uint64_t seed = 8;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<float> logits(1000);
  for (float& logit : logits) logit = static_cast<float>(random() % 4000) / 100.0F - 20.0F;
  const auto found = log_probabilities(logits, 0, 1000);
  double sum = 0;
  for (std::size_t i = 0; i < found.top.size(); ++i) {
    sum += std::exp(double{found.top[i].logprob});
    if (i > 0) CHECK(found.top[i].logprob <= found.top[i - 1].logprob);
  }
  CHECK(sum == Approx(1.0).epsilon(1e-4));
}

TEST_CASE("only allowed tokens are chosen") {
  std::vector<float> logits(130);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7);
  std::vector<std::uint64_t> allowed(3, 0);
  for (const unsigned id : {3U, 64U, 129U}) allowed[id / 64] |= std::uint64_t{1} << (id % 64);
  CHECK(Sampler({}).sample(logits, {}, allowed) == 3);
  SamplingOptions warm;
  warm.temperature = 50;
  warm.seed = 4;
  Sampler sampler(warm);
  int seen[130] = {};
  for (int i = 0; i < 600; ++i) ++seen[sampler.sample(logits, {}, allowed)];
  CHECK(seen[3] + seen[64] + seen[129] == 600);
  CHECK(seen[3] > 100);
  CHECK(seen[64] > 100);
  CHECK(seen[129] > 100);
  // Truncation counts among the allowed; a bias brings back no other.
  warm.top_k = 1;
  warm.logit_bias = {{5, 1e6F}};
  CHECK(Sampler(warm).sample(logits, {}, allowed) == 3);
}

TEST_CASE("an allowed token is chosen even where its logit is none") {
  const std::vector<float> logits = {5.0F, kNan, -kInfinity, 4.0F};
  const std::vector<std::uint64_t> two = {0b110};
  CHECK(Sampler({}).sample(logits, {}, two) == 1);
  CHECK(Sampler({}).sample(logits, {}, std::vector<std::uint64_t>{0}) == -1);
  CHECK(Sampler({}).sample(logits, {}, std::vector<std::uint64_t>{0b1000}) == 3);
}
