#include "engine/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mzcache::engine {
namespace {

// A family whose turns are [opening][text][end][after_end]. Control tokens appear in these strings
// as the text the vocabulary has for them.
struct Family {
  std::string_view name;
  std::string_view marker;  // a template text with this in it is of the family
  std::array<std::string_view, 4> controls;
  bool bos;   // the template itself puts BOS first, whatever the tokenizer's metadata says
  bool trim;  // white space around a message is removed
  std::string_view system_open;  // "": the system message leads the first user turn
  std::string_view user_open;
  std::string_view end;  // the end-of-turn token; the vocabulary must have it
  std::string_view after_end;
  std::string_view answer_open;
};

constexpr std::array kFamilies = {
    Family{"chatml",
           "<|im_start|>",
           {"<|im_start|>", "<|im_end|>"},
           false,
           false,
           "<|im_start|>system\n",
           "<|im_start|>user\n",
           "<|im_end|>",
           "\n",
           "<|im_start|>assistant\n"},
    Family{"llama3",
           "<|start_header_id|>",
           {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
           true,
           true,
           "<|start_header_id|>system<|end_header_id|>\n\n",
           "<|start_header_id|>user<|end_header_id|>\n\n",
           "<|eot_id|>",
           "",
           "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    Family{"gemma",
           "<start_of_turn>",
           {"<start_of_turn>", "<end_of_turn>"},
           true,
           true,
           "",
           "<start_of_turn>user\n",
           "<end_of_turn>",
           "\n",
           "<start_of_turn>model\n"},
    Family{"exaone4",
           "[|tool|]",
           {"[|system|]", "[|user|]", "[|assistant|]", "[|endofturn|]"},
           false,
           false,
           "[|system|]\n",
           "[|user|]\n",
           "[|endofturn|]",
           "\n",
           "[|assistant|]\n<think>\n\n</think>\n\n"},
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// Puts tokens together: control tokens only from the family's own strings, and the text between two
// of them encoded in one piece, as if the whole prompt had been one text.
class Prompt {
 public:
  Prompt(const Tokenizer& tokenizer, const Family& family)
      : tokenizer_(tokenizer), family_(family) {}

  void add_bos() {
    if (tokenizer_.bos() >= 0) tokens_.push_back(tokenizer_.bos());
  }
  void add_text(std::string_view text) { text_ += text; }
  void add_format(std::string_view format) {
    while (!format.empty()) {
      const auto [at, control] = first_control(format);
      text_ += format.substr(0, at);
      if (control.empty()) return;
      flush();
      tokens_.push_back(tokenizer_.special(control));
      format.remove_prefix(at + control.size());
    }
  }
  std::vector<Token> take() {
    flush();
    return std::move(tokens_);
  }

 private:
  // A control string the vocabulary lacks is text.
  std::pair<std::size_t, std::string_view> first_control(std::string_view format) const {
    std::pair<std::size_t, std::string_view> first{std::string_view::npos, {}};
    for (const std::string_view control : family_.controls) {
      if (control.empty() || tokenizer_.special(control) < 0) continue;
      const std::size_t at = format.find(control);
      if (at < first.first) first = {at, control};
    }
    return first;
  }
  void flush() {
    const auto tokens = tokenizer_.encode(text_, {.parse_special = false, .add_bos = false});
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    text_.clear();
  }

  const Tokenizer& tokenizer_;
  const Family& family_;
  std::string text_;
  std::vector<Token> tokens_;
};

class FamilyTemplate final : public ChatTemplate {
 public:
  FamilyTemplate(const Family& family, std::string default_system)
      : family_(family), default_system_(std::move(default_system)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return family_.name; }
  [[nodiscard]] std::vector<Token> user_turn(const Tokenizer& tokenizer, std::string_view text,
                                             std::string_view system, bool first,
                                             bool previous_closed) const override {
    Prompt prompt(tokenizer, family_);
    if (system.empty()) system = default_system_;
    if (family_.trim) {
      text = trimmed(text);
      system = trimmed(system);
    }
    if (first) {
      open(tokenizer, system, prompt);
    } else {
      if (!previous_closed) prompt.add_format(family_.end);
      prompt.add_format(family_.after_end);
    }
    prompt.add_format(family_.user_open);
    if (first && family_.system_open.empty() && !system.empty()) {
      prompt.add_text(system);
      prompt.add_text("\n\n");
    }
    prompt.add_text(text);
    prompt.add_format(family_.end);
    prompt.add_format(family_.after_end);
    prompt.add_format(family_.answer_open);
    return prompt.take();
  }

 private:
  void open(const Tokenizer& tokenizer, std::string_view system, Prompt& prompt) const {
    const bool asks_for_bos = !tokenizer.encode("", {}).empty();
    if (family_.bos || asks_for_bos) prompt.add_bos();
    if (system.empty() || family_.system_open.empty()) return;
    prompt.add_format(family_.system_open);
    prompt.add_text(system);
    prompt.add_format(family_.end);
    prompt.add_format(family_.after_end);
  }

  const Family& family_;
  std::string default_system_;
};

// The text as it is, for models that were not trained on turns.
class RawTemplate final : public ChatTemplate {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "raw"; }
  [[nodiscard]] std::vector<Token> user_turn(const Tokenizer& tokenizer, std::string_view text,
                                             std::string_view system, bool first,
                                             bool /*previous_closed*/) const override {
    std::string all;
    if (first && !system.empty()) all.append(system).append("\n\n");
    all += text;
    return tokenizer.encode(all, {.parse_special = false, .add_bos = first});
  }
};

// ChatML templates write their default system message out as a literal, if they have one.
std::string chatml_default_system(std::string_view template_text) {
  constexpr std::string_view kOpen = "<|im_start|>system";
  constexpr std::string_view kEnd = "<|im_end|>";
  for (std::size_t at = template_text.find(kOpen); at != std::string_view::npos;
       at = template_text.find(kOpen, at + 1)) {
    std::string_view rest = template_text.substr(at + kOpen.size());
    if (rest.starts_with("\n")) {
      rest.remove_prefix(1);
    } else if (rest.starts_with("\\n")) {
      rest.remove_prefix(2);
    } else {
      continue;
    }
    const std::string_view message = rest.substr(0, rest.find(kEnd));
    // Quotes and braces mean that the literal ended before the message did.
    const bool literal =
        message.size() < rest.size() && message.find_first_of("'\"{}\\") == std::string_view::npos;
    if (literal && !message.empty()) return std::string(message);
  }
  return {};
}

std::string names() {
  std::string list;
  for (const Family& family : kFamilies) list.append(family.name).append(", ");
  return list + "raw";
}

std::shared_ptr<const ChatTemplate> make_template(const Family& family,
                                                  std::string_view template_text) {
  std::string system;
  if (family.name == "chatml") system = chatml_default_system(template_text);
  return std::make_shared<const FamilyTemplate>(family, std::move(system));
}

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> choose_chat_template(const Tokenizer& tokenizer,
                                                                 std::string_view template_text,
                                                                 std::string_view name) {
  for (const Family& family : kFamilies) {
    const bool usable = tokenizer.special(family.end) >= 0;
    if (family.name == name) {
      if (usable) return make_template(family, template_text);
      return Error{ErrorCode::kBadArgument, 0, "chat template",
                   std::string(name) + " needs the token " + std::string(family.end) +
                       ", which the model does not have; templates: " + names()};
    }
    const bool meant = template_text.find(family.marker) != std::string_view::npos;
    if (name.empty() && meant && usable) return make_template(family, template_text);
  }
  if (name.empty() || name == "raw") {
    return std::shared_ptr<const ChatTemplate>(std::make_shared<const RawTemplate>());
  }
  return Error{ErrorCode::kBadArgument, 0, "chat template",
               "no template " + std::string(name) + "; templates: " + names()};
}

}  // namespace mzcache::engine
