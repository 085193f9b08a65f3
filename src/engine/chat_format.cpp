#include "engine/chat_format.h"

#include <array>
#include <cstdio>
#include <optional>

namespace mzcache::engine {
namespace {

constexpr std::string_view kNoThoughts = "<think>\n\n</think>\n\n";

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A literal of the template's source up to `end`, its escapes undone; nullopt where it is put
// together from parts (quotes and braces mean that the literal ended before).
std::optional<std::string> literal_until(std::string_view source, std::string_view end) {
  const std::size_t length = source.find(end);
  if (length == std::string_view::npos) return std::nullopt;
  std::string literal;
  for (std::size_t at = 0; at < length; ++at) {
    if (std::string_view("'\"{}").find(source[at]) != std::string_view::npos) return std::nullopt;
    if (source[at] != '\\') {
      literal += source[at];
    } else if (at + 1 < length && source[at + 1] == 'n') {
      literal += '\n';
      ++at;
    } else {
      return std::nullopt;
    }
  }
  return literal;
}

// Skips a line break as the source may write it; false where there is none.
bool skip_newline(std::string_view& source) {
  for (const std::string_view newline : {"\n", "\\n"}) {
    if (!source.starts_with(newline)) continue;
    source.remove_prefix(newline.size());
    return true;
  }
  return false;
}

// What follows `opening` and a line break, wherever that is; empty at the end.
std::vector<std::string_view> after_every(std::string_view text, std::string_view opening) {
  std::vector<std::string_view> found;
  for (std::size_t at = text.find(opening); at != std::string_view::npos;
       at = text.find(opening, at + 1)) {
    std::string_view rest = text.substr(at + opening.size());
    if (skip_newline(rest)) found.push_back(rest);
  }
  return found;
}

// Day, month and year; the month in full or by its first three letters.
std::string date_text(std::chrono::year_month_day date, bool full_month) {
  static constexpr std::array<std::string_view, 12> kMonths = {
      "January", "February", "March",     "April",   "May",      "June",
      "July",    "August",   "September", "October", "November", "December"};
  const std::string_view month = kMonths[(static_cast<unsigned>(date.month()) + 11) % 12];
  char day[16];
  std::snprintf(day, sizeof day, "%02u ", static_cast<unsigned>(date.day()));
  return day + std::string(full_month ? month : month.substr(0, 3)) + " " +
         std::to_string(static_cast<int>(date.year()));
}

// ChatML templates write their default system message out as a literal, if they have one.
std::string chatml_default_system(std::string_view text) {
  for (const std::string_view rest : after_every(text, "<|im_start|>system")) {
    const auto message = literal_until(rest, "<|im_end|>");
    if (message && !message->empty()) return *message;
  }
  return {};
}

ChatFormat chatml(const ChatFormatWish& wish) {
  ChatFormat format;
  format.controls = {"<|im_start|>", "<|im_end|>", "<think>", "</think>"};
  format.end = "<|im_end|>";
  format.after_end = "\n";
  format.system_open = "<|im_start|>system\n";
  format.system_close = "<|im_end|>\n";
  format.default_system = chatml_default_system(wish.template_text);
  format.user_open = "<|im_start|>user\n";
  format.user_close = "<|im_end|>\n";
  format.answer_open = "<|im_start|>assistant\n";
  format.thinking_switch = has(wish.template_text, "enable_thinking");
  // Models that always think have it in the opening of their answer.
  for (const std::string_view rest : after_every(wish.template_text, "<|im_start|>assistant")) {
    const bool always = rest.starts_with("<think>\n'") || rest.starts_with("<think>\\n'");
    if (always && !format.thinking_switch) format.answer_open += "<think>\n";
  }
  if (format.thinking_switch && wish.thinking == Thinking::kOff) {
    format.answer_open += kNoThoughts;
  }
  return format;
}

// The string literals in double quotes that are written out alone, after `begin`.
std::vector<std::string> written_literals(std::string_view text, std::string_view begin) {
  constexpr std::string_view kOpen = "{{- \"";
  std::vector<std::string> literals;
  std::size_t at = text.find(begin);
  while (at != std::string_view::npos) {
    at = text.find(kOpen, at);
    if (at == std::string_view::npos) break;
    at += kOpen.size();
    if (auto literal = literal_until(text.substr(at), "\"")) literals.push_back(*literal);
  }
  return literals;
}

// ChatML with a system message of sections, where thinking is one of them.
ChatFormat smollm3(const ChatFormatWish& wish) {
  const bool thinks = wish.thinking != Thinking::kOff;
  ChatFormat format = chatml({});
  format.thinking_switch = true;
  format.system_open += "## Metadata\n\nKnowledge Cutoff Date: June 2025\n";
  if (has(wish.template_text, "Today Date: ")) {
    format.system_open += "Today Date: " + date_text(wish.today, true) + "\n";
  }
  format.system_open += std::string("Reasoning Mode: ") + (thinks ? "/think" : "/no_think") +
                        "\n\n## Custom Instructions\n\n";
  format.system_close = "\n\n<|im_end|>\n";
  format.system_always = true;
  const auto defaults = written_literals(wish.template_text, "## Custom Instructions\\n\\n\" -}}");
  const std::size_t wanted = thinks ? 0 : 1;
  if (wanted < defaults.size()) {
    format.default_system = defaults[wanted];
    while (format.default_system.ends_with("\n")) format.default_system.pop_back();
  }
  if (!thinks) format.answer_open += "<think>\n\n</think>\n";
  return format;
}

ChatFormat llama3(const ChatFormatWish& wish) {
  ChatFormat format;
  format.controls = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  format.end = "<|eot_id|>";
  format.bos = true;
  format.trims_user = true;
  format.trims_system = true;
  format.system_open = "<|start_header_id|>system<|end_header_id|>\n\n";
  if (has(wish.template_text, "Cutting Knowledge Date: December 2023")) {
    const bool dated = has(wish.template_text, "strftime_now");
    format.system_open += "Cutting Knowledge Date: December 2023\nToday Date: " +
                          (dated ? date_text(wish.today, false) : "26 Jul 2024") + "\n\n";
    format.system_always = true;
  }
  format.system_close = "<|eot_id|>";
  format.user_open = "<|start_header_id|>user<|end_header_id|>\n\n";
  format.user_close = "<|eot_id|>";
  format.answer_open = "<|start_header_id|>assistant<|end_header_id|>\n\n";
  return format;
}

ChatFormat gemma(const ChatFormatWish& /*wish*/) {
  ChatFormat format;
  format.controls = {"<start_of_turn>", "<end_of_turn>"};
  format.end = "<end_of_turn>";
  format.after_end = "\n";
  format.bos = true;
  format.trims_user = true;
  format.system_close = "\n\n";
  format.system_in_user = true;
  format.user_open = "<start_of_turn>user\n";
  format.user_close = "<end_of_turn>\n";
  format.answer_open = "<start_of_turn>model\n";
  return format;
}

ChatFormat exaone4(const ChatFormatWish& wish) {
  ChatFormat format;
  format.controls = {"[|system|]",    "[|user|]", "[|assistant|]",
                     "[|endofturn|]", "<think>",  "</think>"};
  format.end = "[|endofturn|]";
  format.after_end = "\n";
  format.system_open = "[|system|]\n";
  format.system_close = "[|endofturn|]\n";
  format.user_open = "[|user|]\n";
  format.user_close = "[|endofturn|]\n";
  format.answer_open = "[|assistant|]\n";
  format.answer_open += wish.thinking == Thinking::kOn ? "<think>\n" : kNoThoughts;
  format.thinking_switch = true;
  return format;
}

ChatFormat llama2(const ChatFormatWish& /*wish*/) {
  ChatFormat format;
  format.controls = {"[INST]", "[/INST]"};
  format.bos = true;
  format.bos_every_turn = true;
  format.trims_user = true;
  format.system_open = "<<SYS>>\n";
  format.system_close = "\n<</SYS>>\n\n";
  format.system_in_user = true;
  format.user_open = "[INST] ";
  format.user_close = " [/INST]";
  return format;
}

// Its versions differ in the spaces, and in where the system message goes.
ChatFormat mistral(const ChatFormatWish& wish) {
  const std::string_view text = wish.template_text;
  ChatFormat format;
  format.controls = {"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"};
  format.bos = true;
  if (has(text, "[SYSTEM_PROMPT]")) {
    format.system_open = has(text, "[SYSTEM_PROMPT] ") ? "[SYSTEM_PROMPT] " : "[SYSTEM_PROMPT]";
    format.system_close = "[/SYSTEM_PROMPT]";
  } else {
    format.system_close = "\n\n";
    format.system_in_user = true;
  }
  format.user_open = has(text, "[INST] ") || text.empty() ? "[INST] " : "[INST]";
  format.user_close = has(text, " [/INST]") || text.empty() ? " [/INST]" : "[/INST]";
  return format;
}

struct Family {
  std::string_view name;
  std::array<std::string_view, 2> markers;  // a template text with both in it is of the family
  ChatFormat (*make)(const ChatFormatWish& wish);
};

// The more particular before those they resemble.
constexpr std::array kFamilies = {
    Family{"smollm3", {"<|im_start|>", "## Custom Instructions"}, smollm3},
    Family{"chatml", {"<|im_start|>", ""}, chatml},
    Family{"llama3", {"<|start_header_id|>", ""}, llama3},
    Family{"gemma", {"<start_of_turn>", ""}, gemma},
    Family{"exaone4", {"[|tool|]", ""}, exaone4},
    Family{"llama2", {"[INST]", "<<SYS>>"}, llama2},
    Family{"mistral", {"[INST]", ""}, mistral},
};

}  // namespace

std::vector<std::string_view> chat_families() {
  std::vector<std::string_view> names;
  names.reserve(kFamilies.size());
  for (const Family& family : kFamilies) names.push_back(family.name);
  return names;
}

bool is_chat_family(std::string_view family, std::string_view template_text) {
  for (const Family& one : kFamilies) {
    if (one.name != family) continue;
    return has(template_text, one.markers[0]) && has(template_text, one.markers[1]);
  }
  return false;
}

ChatFormat make_chat_format(std::string_view family, const ChatFormatWish& wish) {
  for (const Family& one : kFamilies) {
    if (one.name != family) continue;
    ChatFormat format = one.make(wish);
    format.name = one.name;
    return format;
  }
  return {};
}

}  // namespace mzcache::engine
