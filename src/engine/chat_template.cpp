#include "engine/chat_template.h"

#include <algorithm>
#include <utility>

namespace mzcache::engine {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// What a template may use as markup: <word> or [word], as short as such words are.
std::string_view bracketed(std::string_view text) {
  constexpr std::size_t kBytesMax = 64;
  const char close = text[0] == '<' ? '>' : ']';
  const std::size_t end = text.substr(0, kBytesMax).find(close);
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

// The tokens that the format or the model's own template has between the turns. Special tokens of
// other kinds, such as several spaces or line breaks, are what a text of the user consists of.
std::vector<Token> markup_tokens(const Tokenizer& tokenizer, const ChatFormat& format,
                                 std::string_view template_text) {
  std::vector<Token> markup;
  const auto add = [&](std::string_view text) {
    const Token token = tokenizer.special(text);
    if (token < 0 || std::find(markup.begin(), markup.end(), token) != markup.end()) return;
    markup.push_back(token);
  };
  for (const std::string& control : format.controls) add(control);
  for (std::size_t at = template_text.find_first_of("<["); at != std::string_view::npos;
       at = template_text.find_first_of("<[", at + 1)) {
    add(bracketed(template_text.substr(at)));
  }
  return markup;
}

// Puts tokens together: control tokens and markup only from the format's own texts, and what is
// between two of them encoded in one piece, as if the whole prompt had been one text.
class Prompt {
 public:
  Prompt(const Tokenizer& tokenizer, const ChatFormat& format, std::span<const Token> markup)
      : tokenizer_(tokenizer), format_(format), markup_(markup) {}

  void add_token(Token token) {
    flush();
    if (token >= 0) tokens_.push_back(token);
  }
  void add_text(std::string_view text) { text_ += text; }
  void add_format(std::string_view text) {
    while (!text.empty()) {
      const auto [at, control] = first_control(text);
      text_ += text.substr(0, at);
      if (control.empty()) return;
      add_token(tokenizer_.special(control));
      text.remove_prefix(at + control.size());
    }
  }
  std::vector<Token> take() {
    flush();
    return std::move(tokens_);
  }

 private:
  // A control string the vocabulary lacks is text.
  std::pair<std::size_t, std::string_view> first_control(std::string_view text) const {
    std::pair<std::size_t, std::string_view> first{std::string_view::npos, {}};
    for (const std::string& control : format_.controls) {
      if (tokenizer_.special(control) < 0) continue;
      const std::size_t at = text.find(control);
      if (at < first.first) first = {at, control};
    }
    return first;
  }
  void flush() {
    const auto tokens =
        tokenizer_.encode(text_, {.parse_special = false, .add_bos = false, .as_text = markup_});
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    text_.clear();
  }

  const Tokenizer& tokenizer_;
  const ChatFormat& format_;
  std::span<const Token> markup_;
  std::string text_;
  std::vector<Token> tokens_;
};

class FamilyTemplate final : public ChatTemplate {
 public:
  FamilyTemplate(ChatFormat format, std::vector<Token> markup)
      : format_(std::move(format)), markup_(std::move(markup)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return format_.name; }

  [[nodiscard]] std::vector<Token> user_turn(const Tokenizer& tokenizer,
                                             const UserTurn& turn) const override {
    Prompt prompt(tokenizer, format_, markup_);
    const std::string_view given = format_.trims_system ? trimmed(turn.system) : turn.system;
    const bool has_system =
        turn.first && (!given.empty() || !format_.default_system.empty() || format_.system_always);
    if (!turn.first) close(tokenizer, turn, prompt);
    const bool starts = turn.first && (format_.bos || tokenizer.adds_bos());
    if (starts || (!turn.first && format_.bos_every_turn)) prompt.add_token(tokenizer.bos());
    if (has_system && !format_.system_in_user) add_system(given, prompt);
    prompt.add_format(format_.user_open);
    if (has_system && format_.system_in_user) add_system(given, prompt);
    prompt.add_text(format_.trims_user ? trimmed(turn.text) : turn.text);
    prompt.add_format(format_.user_close);
    prompt.add_format(format_.answer_open);
    return prompt.take();
  }

 private:
  void close(const Tokenizer& tokenizer, const UserTurn& turn, Prompt& prompt) const {
    if (!turn.previous_closed) {
      const bool named = !format_.end.empty();
      prompt.add_token(named ? tokenizer.special(format_.end) : tokenizer.eos());
    }
    prompt.add_format(format_.after_end);
  }
  void add_system(std::string_view given, Prompt& prompt) const {
    prompt.add_format(format_.system_open);
    if (given.empty()) {
      prompt.add_format(format_.default_system);
    } else {
      prompt.add_text(given);
    }
    prompt.add_format(format_.system_close);
  }

  const ChatFormat format_;
  const std::vector<Token> markup_;
};

// The text as it is, for models that were not trained on turns.
class RawTemplate final : public ChatTemplate {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "raw"; }
  [[nodiscard]] std::vector<Token> user_turn(const Tokenizer& tokenizer,
                                             const UserTurn& turn) const override {
    std::string all;
    if (turn.first && !turn.system.empty()) all.append(turn.system).append("\n\n");
    all += turn.text;
    return tokenizer.encode(all,
                            {.parse_special = false, .add_bos = turn.first, .starts = turn.first});
  }
};

Error refused(std::string field, std::string what) {
  return {ErrorCode::kBadArgument, 0, "chat template", std::move(what), std::move(field)};
}

std::chrono::year_month_day today() {
  return std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
}

// The family by name or by the template text; "" is raw.
Result<std::string_view> choose_family(const ChatTemplateWish& wish) {
  for (const std::string_view family : chat_families()) {
    if (wish.name == family) return family;
    if (wish.name.empty() && is_chat_family(family, wish.template_text)) return family;
  }
  if (wish.name.empty() || wish.name == "raw") return std::string_view();
  return refused("chat_template", "no template " + std::string(wish.name) +
                                      " (allowed: " + chat_template_names() + ")");
}

}  // namespace

std::string chat_template_names() {
  std::string list;
  for (const std::string_view family : chat_families()) list.append(family).append(", ");
  return list + "raw";
}

Result<std::shared_ptr<const ChatTemplate>> choose_chat_template(const Tokenizer& tokenizer,
                                                                 const ChatTemplateWish& wish) {
  const auto family = choose_family(wish);
  if (!family) return family.error();
  ChatFormat format = make_chat_format(
      *family, {wish.template_text, wish.thinking, wish.today.ok() ? wish.today : today()});
  const bool named = !format.end.empty();
  const bool usable = (named ? tokenizer.special(format.end) : tokenizer.eos()) >= 0;
  if (!usable && !wish.name.empty() && wish.name != "raw") {
    return refused("chat_template", std::string(wish.name) + " needs " +
                                        (named ? "the token " + format.end
                                               : std::string("an end-of-sequence token")) +
                                        ", which the model does not have (allowed: those of " +
                                        chat_template_names() + " whose tokens it has)");
  }
  const bool raw = family->empty() || !usable;
  if (wish.thinking != Thinking::kDefault && (raw || !format.thinking_switch)) {
    return refused("thinking", "thinking cannot be switched: the template " +
                                   (raw ? std::string("raw") : format.name) +
                                   " has no such switch (allowed: default)");
  }
  if (raw) return std::shared_ptr<const ChatTemplate>(std::make_shared<const RawTemplate>());
  auto markup = markup_tokens(tokenizer, format, wish.template_text);
  return std::shared_ptr<const ChatTemplate>(
      std::make_shared<const FamilyTemplate>(std::move(format), std::move(markup)));
}

}  // namespace mzcache::engine
