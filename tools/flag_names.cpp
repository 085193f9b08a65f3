#include "flag_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace mzcache::tools {
namespace {

// Fields whose flag has another name; the others are spelled alike: chat_template, --chat-template.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kFlags = {{
    {"context_tokens", "--context"},
    {"device.name", "--device"},
    {"memory.codec", "--codec"},
    {"policy.order", "--order"},
}};

std::string flag_of(const std::string& field) {
  for (const auto& [name, flag] : kFlags) {
    if (name == field) return std::string(flag);
  }
  std::string flag = "--" + field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

// "device.name=x" sets "device.name"; "placement.prefill.cores=9" sets "placement.prefill".
bool assigns(const std::string& assignment, const std::string& key) {
  return assignment.starts_with(key + "=") || assignment.starts_with(key + ".");
}

}  // namespace

std::string flag_that_set(const CommandLine& command, const std::string& field) {
  if (field.empty()) return {};
  const std::optional<Option> own = command.find(flag_of(field));
  if (own && !own->given().empty()) return own->names();
  const std::optional<Option> set = command.find("--set");
  if (!set) return {};
  for (const std::string& assignment : set->given()) {
    if (assigns(assignment, field)) return "--set " + assignment;
  }
  return {};
}

}  // namespace mzcache::tools
