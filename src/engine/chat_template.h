// Chat templates by family: how turns become tokens. User text never becomes a control token.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer.h"

namespace mzcache::engine {

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  // Tokens of one user turn and the start of the answer. `first`: the conversation's start (BOS,
  // system message: `system`, or the family's default where it is empty). Later turns begin by
  // closing the answer before them unless `previous_closed` (its end-of-turn token is in context).
  [[nodiscard]] virtual std::vector<Token> user_turn(const Tokenizer& tokenizer,
                                                     std::string_view text, std::string_view system,
                                                     bool first, bool previous_closed) const = 0;
};

// Chosen from the file's template text and vocabulary, or by name ("" chooses; "chatml", "raw").
// kBadArgument lists the names there are. A model without a template gets "raw".
[[nodiscard]] Result<std::shared_ptr<const ChatTemplate>> choose_chat_template(
    const Tokenizer& tokenizer, std::string_view template_text, std::string_view name);

}  // namespace mzcache::engine
