#include "engine/answer_source.h"

#include <algorithm>
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
  sampling.repeat_last = options.repeat_last;
  sampling.logit_bias = options.logit_bias;
  sampling.seed = options.seed;
  return sampling;
}

}  // namespace

AnswerSource::AnswerSource(std::shared_ptr<const Tokenizer> tokenizer,
                           const GenerateOptions& options,
                           std::unique_ptr<GrammarConstraint> grammar,
                           std::function<void(std::string)> show)
    : tokenizer_(tokenizer),
      sampler_(to_sampling(options)),
      grammar_(std::move(grammar)),
      detokenizer_(std::move(tokenizer)),
      stops_(options.stop),
      show_(std::move(show)),
      tokens_left_(options.max_tokens),
      top_logprobs_(options.logprobs) {}

void AnswerSource::show(std::string text) {
  if (text.empty()) return;
  text_ += text;
  if (show_) show_(std::move(text));
}

TokenSource::Decision AnswerSource::next(std::span<const float> logits,
                                         std::span<const Token> tokens) noexcept {
  Decision decision;
  decision.token = grammar_ == nullptr ? sampler_.sample(logits, tokens)
                                       : sampler_.sample(logits, tokens, grammar_->allowed());
  if (decision.token < 0) {  // the model knows fewer tokens than the vocabulary: none is left
    decision.token = std::max(tokenizer_->eos(), 0);
    decision.stop = StopReason::kStop;
  }
  if (top_logprobs_ >= 0) {
    logprobs_.push_back(
        log_probabilities(logits, decision.token, static_cast<std::uint32_t>(top_logprobs_)));
  }
  if (decision.stop) return decision;
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
  } else if (grammar_ != nullptr) {
    grammar_->accept(decision.token);
    if (grammar_->nothing_allowed()) decision.stop = StopReason::kStop;
  }
  return decision;
}

void AnswerSource::finish() {
  if (stops_.matched()) return;
  show(stops_.push(detokenizer_.finish()));
  if (!stops_.matched()) show(stops_.finish());
}

}  // namespace mzcache::engine
