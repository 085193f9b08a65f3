#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace mzcache::engine {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr std::size_t kFirstSorted = 128;  // most draws with top-p need no more

// A logit that is no number cannot be chosen; one without bound wins, but stays a number.
float tidy(float logit) {
  if (std::isnan(logit)) return kLowest;
  return std::min(logit, std::numeric_limits<float>::max());
}

Token first_highest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<Token>(best);
}

std::uint64_t fresh_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

// Uniform in [0, 1), the same on every platform (the standard's distributions are not).
double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11U) * 0x1.0p-53; }

// Higher values first, lower ids first among equals.
struct Ahead {
  std::span<const float> values;
  bool operator()(std::uint32_t a, std::uint32_t b) const {
    return values[a] > values[b] || (values[a] == values[b] && a < b);
  }
};

using Ids = std::vector<std::uint32_t>;

// Puts the first of [begin, end) in their order up to `middle`. Few of many: one pass over the
// many, nearly all of which lose their only comparison.
void sort_first(Ids::iterator begin, Ids::iterator middle, Ids::iterator end, const Ahead& ahead) {
  if ((middle - begin) * 64 < end - begin) {
    std::partial_sort(begin, middle, end, ahead);
    return;
  }
  if (middle != end) std::nth_element(begin, middle, end, ahead);
  std::sort(begin, middle, ahead);
}

// Puts all other tokens out. The first that is allowed, -1 if none is.
Token keep_allowed(std::span<const std::uint64_t> allowed, std::span<float> logits) {
  if (allowed.empty()) return 0;
  Token first = -1;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool in = i / 64 < allowed.size() && (allowed[i / 64] >> (i % 64U) & 1U) != 0;
    if (!in) logits[i] = kLowest;
    if (in && first < 0) first = static_cast<Token>(i);
  }
  return first;
}

void penalise(const SamplingOptions& options, std::span<const Token> recent, Ids& window,
              std::span<float> logits) {
  recent = recent.last(std::min<std::size_t>(recent.size(), options.repeat_last));
  window.assign(recent.begin(), recent.end());  // negative ids become out of range
  std::sort(window.begin(), window.end());
  for (auto at = window.begin(); at != window.end() && *at < logits.size();) {
    const auto end = std::upper_bound(at, window.end(), *at);
    float& logit = logits[*at];
    logit = logit > 0 ? logit / options.repeat_penalty : logit * options.repeat_penalty;
    logit -= static_cast<float>(end - at) * options.frequency_penalty + options.presence_penalty;
    at = end;
  }
}

// Keeps the shortest beginning of `order`, most likely first, that holds `share` of the weight.
void keep_share(Ids& order, std::span<const float> weights, double share) {
  double wanted = 0;
  for (const std::uint32_t id : order) wanted += double{weights[id]};
  wanted *= share;
  const Ahead ahead{weights};
  double held = 0;
  std::size_t sorted = 0;
  for (std::size_t step = kFirstSorted; sorted < order.size(); step *= 4) {
    const std::size_t end = std::min(order.size(), sorted + step);
    sort_first(order.begin() + static_cast<std::ptrdiff_t>(sorted),
               order.begin() + static_cast<std::ptrdiff_t>(end), order.end(), ahead);
    for (; sorted < end; ++sorted) {
      held += double{weights[order[sorted]]};
      if (held >= wanted) {
        order.resize(sorted + 1);
        return;
      }
    }
  }
}

Token draw(std::span<const std::uint32_t> order, std::span<const float> weights,
           std::mt19937_64& random) {
  double left = 0;
  for (const std::uint32_t id : order) left += double{weights[id]};
  left *= uniform(random);
  Token last = static_cast<Token>(order.front());
  for (const std::uint32_t id : order) {
    if (weights[id] == 0) continue;  // rounding must not pick what cannot be
    last = static_cast<Token>(id);
    left -= double{weights[id]};
    if (left < 0) break;
  }
  return last;
}

}  // namespace

Sampler::Sampler(SamplingOptions options)
    : options_(std::move(options)), random_(options_.seed != 0 ? options_.seed : fresh_seed()) {}

Token Sampler::sample(std::span<const float> logits, std::span<const Token> recent,
                      std::span<const std::uint64_t> allowed) {
  if (logits.empty()) return -1;
  scratch_.resize(logits.size());
  std::transform(logits.begin(), logits.end(), scratch_.begin(), tidy);
  const Token fallback = keep_allowed(allowed, scratch_);
  if (fallback < 0) return -1;
  for (const auto& [token, bias] : options_.logit_bias) {
    if (token >= 0 && static_cast<std::size_t>(token) < scratch_.size()) scratch_[token] += bias;
  }
  const bool penalties = options_.repeat_penalty != 1.0F || options_.frequency_penalty != 0.0F ||
                         options_.presence_penalty != 0.0F;
  if (penalties) penalise(options_, recent, order_, scratch_);
  if (penalties || !options_.logit_bias.empty()) {  // which may overflow
    std::transform(scratch_.begin(), scratch_.end(), scratch_.begin(), tidy);
  }
  const Token best = first_highest(scratch_);
  const float highest = scratch_[best];
  if (highest == kLowest) return fallback;  // nothing can be chosen: the first that may be
  if (!(options_.temperature > 0)) return best;

  order_.resize(scratch_.size());
  std::iota(order_.begin(), order_.end(), 0U);
  if (options_.top_k > 0 && options_.top_k < order_.size()) {
    const auto end = order_.begin() + options_.top_k;
    sort_first(order_.begin(), end, order_.end(), Ahead{scratch_});
    order_.erase(end, order_.end());
  }
  const float temperature = options_.temperature;
  for (const std::uint32_t id : order_) {  // from here on scratch_ holds weights; the best has 1
    const float logit = scratch_[id];
    scratch_[id] = logit == kLowest ? 0.0F : std::exp((logit - highest) / temperature);
  }
  if (options_.top_p < 1.0F) keep_share(order_, scratch_, double{std::max(options_.top_p, 0.0F)});
  if (options_.min_p > 0.0F) {
    const float least = std::min(options_.min_p, 1.0F);
    std::erase_if(order_, [&](std::uint32_t id) { return scratch_[id] < least; });
  }
  return draw(order_, scratch_, random_);
}

TokenLogprob log_probabilities(std::span<const float> logits, Token chosen, std::uint32_t top) {
  TokenLogprob result;
  result.token = chosen;
  std::vector<float> tidied(logits.size());
  std::transform(logits.begin(), logits.end(), tidied.begin(), tidy);
  const float highest = tidied.empty() ? kLowest : tidied[first_highest(tidied)];
  double sum = 0;
  for (const float logit : tidied) sum += std::exp(double{logit} - double{highest});
  const double shift = std::log(sum);  // apart from `highest`, beside which it may not count
  const auto logprob = [&](std::size_t id) {
    return highest == kLowest ? kLowest
                              : static_cast<float>(double{tidied[id]} - double{highest} - shift);
  };
  if (chosen >= 0 && static_cast<std::size_t>(chosen) < tidied.size()) {
    result.logprob = logprob(static_cast<std::size_t>(chosen));
  }
  Ids order(tidied.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto end = order.begin() + std::min<std::ptrdiff_t>(top, std::ssize(order));
  sort_first(order.begin(), end, order.end(), Ahead{tidied});
  for (auto at = order.begin(); at != end; ++at) {
    result.top.push_back({static_cast<Token>(*at), logprob(*at)});
  }
  return result;
}

}  // namespace mzcache::engine
