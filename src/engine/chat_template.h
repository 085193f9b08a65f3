// Chat templates by family: how turns become tokens. User text never becomes a control token, nor
// any other token that the template uses as markup, such as <think>.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat_format.h"
#include "engine/tokenizer.h"

namespace mzcache::engine {

struct UserTurn {
  std::string_view text;
  std::string_view system = {};  // of the first turn; empty: the template's default
  bool first = true;             // the conversation's start: BOS, system message
  // Later turns begin by closing the answer before them, unless its end-of-turn token is in the
  // context already.
  bool previous_closed = false;
};

// Immutable, so thread-safe.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  // Tokens of one user turn and the start of the answer.
  [[nodiscard]] virtual std::vector<Token> user_turn(const Tokenizer& tokenizer,
                                                     const UserTurn& turn) const = 0;
};

struct ChatTemplateWish {
  std::string_view template_text;  // of the model file
  std::string_view name = {};      // "" chooses; a family, or "raw"
  Thinking thinking = Thinking::kDefault;
  std::chrono::year_month_day today = {};  // not set: the system's date
};

// Chosen from the file's template text and vocabulary, or by name. kBadArgument: no such name (the
// names there are are listed), a vocabulary without the family's tokens, thinking asked of a
// template without the switch. A model without a template gets "raw": its text as it is.
[[nodiscard]] Result<std::shared_ptr<const ChatTemplate>> choose_chat_template(
    const Tokenizer& tokenizer, const ChatTemplateWish& wish);
// "chatml, llama3, …, raw".
[[nodiscard]] std::string chat_template_names();

}  // namespace mzcache::engine
