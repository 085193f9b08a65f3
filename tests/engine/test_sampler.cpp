#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/sampler.h"
#include "support/catch.h"

using namespace mzcache::engine;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Token greedy(const std::vector<float>& logits) { return Sampler({}).sample(logits, {}); }

// The probabilities the options give, worked out the obvious way: everything sorted, step by step.
std::vector<double> probabilities(const SamplingOptions& options, std::vector<float> logits) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (options.top_k > 0) order.resize(std::min<std::size_t>(order.size(), options.top_k));
  std::vector<double> weight(logits.size(), 0.0);
  double sum = 0;
  for (const std::size_t id : order) {
    weight[id] = std::exp(double{logits[id] - logits[order[0]]} / double{options.temperature});
    sum += weight[id];
  }
  double before = 0;
  const double best = weight[order[0]];
  for (const std::size_t id : order) {
    const double own = weight[id];
    if (before >= double{options.top_p} * sum && id != order[0]) weight[id] = 0;
    if (own < double{options.min_p} * best) weight[id] = 0;
    before += own;
  }
  const double kept = std::accumulate(weight.begin(), weight.end(), 0.0);
  for (double& one : weight) one /= kept;
  return weight;
}

// Pearson's statistic of many draws, against a limit that a right sampler passes nearly always; the
// seed is fixed, so it always does.
void check_frequencies(SamplingOptions options, const std::vector<float>& logits) {
  constexpr int kDraws = 20000;
  options.seed = 71;
  const std::vector<double> expected = probabilities(options, logits);
  Sampler sampler(options);
  std::vector<int> seen(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) {
    const Token token = sampler.sample(logits, {});
    REQUIRE(token >= 0);
    ++seen[static_cast<std::size_t>(token)];
  }
  double statistic = 0;
  int cells = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double wanted = expected[i] * kDraws;
    if (expected[i] == 0) CHECK(seen[i] == 0);
    if (wanted < 5) continue;
    statistic += (seen[i] - wanted) * (seen[i] - wanted) / wanted;
    ++cells;
  }
  const double freedom = std::max(1, cells - 1);
  CAPTURE(statistic, cells);
  CHECK(statistic < freedom + 4 * std::sqrt(2 * freedom) + 8);
}

std::vector<float> random_logits(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = static_cast<float>(random() % 10000) / 1000.0F;
  return logits;
}

}  // namespace

TEST_CASE("greedy takes the highest, the lowest id among equals") {
  CHECK(greedy({1, 5, 2}) == 1);
  CHECK(greedy({3, 3, 3}) == 0);
  CHECK(greedy({1, 7, 7, 7}) == 1);
  CHECK(greedy({kNan, 1, kNan}) == 1);
  CHECK(greedy({kNan, -kInfinity, -3}) == 2);
  CHECK(greedy({kNan, kNan}) == 0);
  CHECK(greedy({-kInfinity, kInfinity, kInfinity}) == 1);
  CHECK(greedy({}) == -1);
  SamplingOptions odd;
  odd.temperature = kNan;
  CHECK(Sampler(odd).sample(std::vector<float>{1, 2}, {}) == 1);
  odd.temperature = -1;
  CHECK(Sampler(odd).sample(std::vector<float>{1, 2}, {}) == 1);
}

TEST_CASE("draws follow the probabilities") {
  const std::vector<float> logits{1.0F, 2.0F, 0.5F, 2.0F, -1.0F, 3.0F, 0.0F, 2.5F};
  SamplingOptions options;
  options.temperature = 1.0F;
  SECTION("temperature 1") { check_frequencies(options, logits); }
  SECTION("temperature 0.5") {
    options.temperature = 0.5F;
    check_frequencies(options, logits);
  }
  SECTION("temperature 3") {
    options.temperature = 3.0F;
    check_frequencies(options, logits);
  }
  SECTION("top-k keeps the lowest ids among equals") {
    options.top_k = 3;
    check_frequencies(options, logits);
  }
  SECTION("top-k above the vocabulary") {
    options.top_k = 100;
    check_frequencies(options, logits);
  }
  SECTION("top-p") {
    options.top_p = 0.7F;
    check_frequencies(options, logits);
  }
  SECTION("min-p") {
    options.min_p = 0.3F;
    check_frequencies(options, logits);
  }
  SECTION("all of them") {
    options.temperature = 1.3F;
    options.top_k = 6;
    options.top_p = 0.9F;
    options.min_p = 0.15F;
    check_frequencies(options, logits);
  }
  SECTION("all equal") { check_frequencies(options, std::vector<float>(50, 2.0F)); }
  SECTION("all equal, top-p") {
    options.top_p = 0.5F;
    check_frequencies(options, std::vector<float>(50, 2.0F));
  }
}

TEST_CASE("draws follow the probabilities of large vocabularies") {
  SamplingOptions options;
  options.temperature = 1.0F;
  const auto logits = random_logits(2000, 72);
  SECTION("top-p over several sorted parts") {
    options.top_p = 0.8F;
    check_frequencies(options, logits);
  }
  SECTION("top-k") {
    options.top_k = 40;
    check_frequencies(options, logits);
  }
  SECTION("nothing left out") { check_frequencies(options, logits); }
}

TEST_CASE("what is impossible is never drawn") {
  SamplingOptions options;
  options.temperature = 1.0F;
  options.seed = 73;
  const std::vector<float> logits{kNan, -kInfinity, 0.0F, -kInfinity, 0.0F, kNan};
  for (const float temperature : {1.0F, 1e-30F, 1e30F, kInfinity}) {
    options.temperature = temperature;
    Sampler sampler(options);
    for (int i = 0; i < 200; ++i) {
      const Token token = sampler.sample(logits, {});
      REQUIRE((token == 2 || token == 4));
    }
  }
  options.temperature = 1.0F;
  Sampler sampler(options);
  CHECK(sampler.sample(std::vector<float>{kNan, kNan}, {}) == 0);
  for (int i = 0; i < 50; ++i) {
    REQUIRE(sampler.sample(std::vector<float>{0.0F, kInfinity, 1e30F}, {}) == 1);
  }
}

TEST_CASE("narrow options leave the best") {
  const auto logits = random_logits(500, 74);
  const Token best = greedy(logits);
  SamplingOptions options;
  options.temperature = 1.0F;
  options.seed = 75;
  const auto always_best = [&](const SamplingOptions& narrow) {
    Sampler sampler(narrow);
    for (int i = 0; i < 50; ++i) {
      if (sampler.sample(logits, {}) != best) return false;
    }
    return true;
  };
  CHECK_FALSE(always_best(options));
  auto narrow = options;
  narrow.top_k = 1;
  CHECK(always_best(narrow));
  narrow = options;
  narrow.top_p = 0.0F;
  CHECK(always_best(narrow));
  narrow.top_p = -1.0F;
  CHECK(always_best(narrow));
  narrow = options;
  narrow.min_p = 1.0F;
  CHECK(always_best(narrow));
  narrow.min_p = 2.0F;
  CHECK(always_best(narrow));
  narrow = options;
  narrow.temperature = 1e-6F;
  CHECK(always_best(narrow));
}

TEST_CASE("penalties and biases move logits") {
  const std::vector<float> logits{2.0F, 1.9F, -1.0F, 1.0F};
  SamplingOptions options;
  options.repeat_penalty = 2.0F;
  CHECK(Sampler(options).sample(logits, std::vector<Token>{0}) == 1);
  CHECK(Sampler(options).sample(logits, {}) == 0);
  CHECK(Sampler(options).sample(logits, std::vector<Token>{-1, 4, 1 << 30}) == 0);  // no ids
  // A negative logit is multiplied, so that it falls as well.
  CHECK(Sampler(options).sample(std::vector<float>{-1.0F, -1.5F}, std::vector<Token>{0}) == 1);

  options = {};
  options.presence_penalty = 0.2F;
  CHECK(Sampler(options).sample(logits, std::vector<Token>{0, 0, 0}) == 1);
  CHECK(Sampler(options).sample(logits, std::vector<Token>{0, 0, 0, 1}) == 0);
  options = {};
  options.frequency_penalty = 0.06F;
  CHECK(Sampler(options).sample(logits, std::vector<Token>{0}) == 0);
  CHECK(Sampler(options).sample(logits, std::vector<Token>{0, 3, 0}) == 1);

  // Only the last repeat_last tokens count.
  options = {};
  options.presence_penalty = 5.0F;
  options.repeat_last = 2;
  CHECK(Sampler(options).sample(logits, std::vector<Token>{0, 3, 2}) == 0);
  CHECK(Sampler(options).sample(logits, std::vector<Token>{3, 0, 2}) == 1);
  options.repeat_last = 0;
  CHECK(Sampler(options).sample(logits, std::vector<Token>{0}) == 0);

  options = {};
  options.logit_bias = {{2, 10.0F}, {99, 50.0F}, {-1, 50.0F}};
  CHECK(Sampler(options).sample(logits, {}) == 2);
  options.logit_bias = {{0, -kInfinity}, {1, -kInfinity}};
  CHECK(Sampler(options).sample(logits, {}) == 3);
  // The bias comes before the penalty: (1 + 4) / 2 is above 2.
  options.logit_bias = {{3, 4.0F}};
  options.repeat_penalty = 2.0F;
  CHECK(Sampler(options).sample(logits, std::vector<Token>{3}) == 3);
}

TEST_CASE("a seed is a sequence") {
  const auto logits = random_logits(300, 76);
  const auto sequence = [&](std::uint64_t seed) {
    SamplingOptions options;
    options.temperature = 1.0F;
    options.seed = seed;
    Sampler sampler(options);
    std::vector<Token> tokens(64);
    for (Token& token : tokens) token = sampler.sample(logits, {});
    return tokens;
  };
  CHECK(sequence(1) == sequence(1));
  CHECK(sequence(1) != sequence(2));
  CHECK(sequence(0) != sequence(0));  // drawn at random: 300^64 sequences
}

TEST_CASE("a seed means the same sequence on every platform") {
  SamplingOptions options;
  options.temperature = 1.0F;
  options.seed = 42;
  Sampler sampler(options);
  std::mt19937_64 random(42);
  const std::vector<float> logits(1024, 0.0F);  // equal weights: the draw is the top ten bits
  for (int i = 0; i < 100; ++i) {
    REQUIRE(sampler.sample(logits, {}) == static_cast<Token>(random() >> 54U));
  }
}
