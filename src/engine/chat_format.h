// How a family of chat models writes turns, as texts: found out from the template in a model file.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "mzcache/messages.h"

namespace mzcache::engine {

// A conversation is [system_open system system_close] then, for every turn,
// [user_open text user_close answer_open] answer [end after_end].
struct ChatFormat {
  std::string name;
  std::vector<std::string> controls;  // where the texts below spell one of these, it is that token
  std::string end;                    // the token that ends an answer; "": the vocabulary's EOS
  std::string after_end;
  bool bos = false;             // the template itself puts BOS first, whatever the metadata says
  bool bos_every_turn = false;  // and again before every user turn
  bool trims_user = false;      // white space around the message is removed
  bool trims_system = false;
  std::string system_open;
  std::string system_close;
  bool system_in_user = false;  // the system message comes after the first user_open
  bool system_always = false;   // system_open and system_close are there without a message too
  std::string default_system;
  std::string user_open;
  std::string user_close;
  std::string answer_open;
  bool thinking_switch = false;  // the template knows both ways
};

struct ChatFormatWish {
  std::string_view template_text;
  Thinking thinking = Thinking::kDefault;
  std::chrono::year_month_day today;  // some system messages begin with it
};

// Names of the families, in the order in which a template text is tried.
[[nodiscard]] std::vector<std::string_view> chat_families();
// True if a template text is of this family.
[[nodiscard]] bool is_chat_family(std::string_view family, std::string_view template_text);
// `family` is one of chat_families().
[[nodiscard]] ChatFormat make_chat_format(std::string_view family, const ChatFormatWish& wish);

}  // namespace mzcache::engine
