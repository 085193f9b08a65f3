// The tokens and the text of one answer: sampler, grammar, incremental text, stop strings, limits.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar_constraint.h"
#include "engine/requests.h"
#include "engine/sampler.h"
#include "engine/stop_strings.h"
#include "engine/tokenizer.h"
#include "mzcache/messages.h"

namespace mzcache::engine {

class AnswerSource final : public TokenSource {
 public:
  // `show` gets text as it becomes certain, on the coordinator's thread. `grammar` may be empty;
  // where it is not it allows some token.
  AnswerSource(std::shared_ptr<const Tokenizer> tokenizer, const GenerateOptions& options,
               std::unique_ptr<GrammarConstraint> grammar, std::function<void(std::string)> show);

  [[nodiscard]] Decision next(std::span<const float> logits,
                              std::span<const Token> tokens) noexcept override;
  // No more tokens come: shows what was held back.
  void finish();
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] std::vector<TokenLogprob> take_logprobs() noexcept { return std::move(logprobs_); }

 private:
  void show(std::string text);

  std::shared_ptr<const Tokenizer> tokenizer_;
  Sampler sampler_;
  std::unique_ptr<GrammarConstraint> grammar_;
  IncrementalDetokenizer detokenizer_;
  StopMatcher stops_;
  std::function<void(std::string)> show_;
  std::string text_;
  std::uint32_t tokens_left_;
  std::int32_t top_logprobs_;  // -1: none are wanted
  std::vector<TokenLogprob> logprobs_;
};

}  // namespace mzcache::engine
