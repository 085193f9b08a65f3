#include "engine/answer_source.h"

#include <utility>

namespace mzcache::engine {
namespace {

SamplingOptions to_sampling(const GenerateOptions& options) {
  SamplingOptions sampling;
  sampling.temperature = options.temperature;
  sampling.top_k = options.top_k;
  sampling.top_p = options.top_p;
  sampling.min_p = options.min_p;
  sampling.repeat_penalty = options.repeat_penalty;
  sampling.frequency_penalty = options.frequency_penalty;
  sampling.presence_penalty = options.presence_penalty;
  sampling.logit_bias = options.logit_bias;
  sampling.seed = options.seed;
  return sampling;
}

}  // namespace

AnswerSource::AnswerSource(std::shared_ptr<const Tokenizer> tokenizer,
                           const GenerateOptions& options, std::function<void(std::string)> show)
    : tokenizer_(tokenizer),
      sampler_(to_sampling(options)),
      detokenizer_(std::move(tokenizer)),
      stops_(options.stop),
      show_(std::move(show)),
      tokens_left_(options.max_tokens) {}

void AnswerSource::show(std::string text) {
  if (text.empty()) return;
  text_ += text;
  if (show_) show_(std::move(text));
}

TokenSource::Decision AnswerSource::next(std::span<const float> logits,
                                         std::span<const Token> tokens) noexcept {
  Decision decision;
  decision.token = sampler_.sample(logits, tokens);
  if (tokens_left_ > 0) --tokens_left_;
  if (tokenizer_->ends_generation(decision.token)) {
    decision.stop = StopReason::kEos;
    return decision;
  }
  show(stops_.push(detokenizer_.push(decision.token)));
  if (stops_.matched()) {
    decision.stop = StopReason::kStop;
  } else if (tokens_left_ == 0) {
    decision.stop = StopReason::kLength;
  }
  return decision;
}

void AnswerSource::finish() {
  if (stops_.matched()) return;
  show(stops_.push(detokenizer_.finish()));
  if (!stops_.matched()) show(stops_.finish());
}

}  // namespace mzcache::engine
