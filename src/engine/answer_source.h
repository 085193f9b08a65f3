// The tokens and the text of one answer: sampler, incremental text, stop strings, limits.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/requests.h"
#include "engine/sampler.h"
#include "engine/stop_strings.h"
#include "engine/tokenizer.h"
#include "mzcache/messages.h"

namespace mzcache::engine {

class AnswerSource final : public TokenSource {
 public:
  // `show` gets text as it becomes certain, on the coordinator's thread.
  AnswerSource(std::shared_ptr<const Tokenizer> tokenizer, const GenerateOptions& options,
               std::function<void(std::string)> show);

  [[nodiscard]] Decision next(std::span<const float> logits,
                              std::span<const Token> tokens) noexcept override;
  // No more tokens come: shows what was held back.
  void finish();
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  void show(std::string text);

  std::shared_ptr<const Tokenizer> tokenizer_;
  Sampler sampler_;
  IncrementalDetokenizer detokenizer_;
  StopMatcher stops_;
  std::function<void(std::string)> show_;
  std::string text_;
  std::uint32_t tokens_left_;
};

}  // namespace mzcache::engine
