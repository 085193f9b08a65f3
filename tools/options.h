// Flags that several commands have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.h"
#include "mzcache/config.h"
#include "mzcache/messages.h"

namespace mzcache::tools {

// --config, --set, --device, --trace, which every command has.
class CommonOptions {
 public:
  void add_to(CommandLine& app);
  // For commands that record nothing: what --trace names then is a trace without spans.
  void add_without_timelines_to(CommandLine& app);
  // File, then --set, then the flags of their own. UsageError for a bad flag; Exception where the
  // trace could not be written later.
  [[nodiscard]] Config config() const;

 private:
  std::string config_file_;
  std::vector<std::string> assignments_;
  std::string device_;
  std::string trace_file_;
  bool records_ = true;
};

// Config::set for the value of a flag: errors name the flag and what is allowed.
void set_from_flag(Config& config, const std::string& flag, const std::string& key,
                   const std::string& value);

// A --logit-bias of ids that the model does not have: UsageError.
void check_bias(const GenerateOptions& options, std::uint32_t vocabulary);

// on, off or default.
[[nodiscard]] Thinking thinking_value(std::string_view flag, const std::string& text);

// --temp, --top-k, … of run and chat.
struct SamplingFlags {
  std::string temperature = "0";
  std::string top_k = "0";
  std::string top_p = "1";
  std::string min_p = "0";
  std::string repeat_penalty = "1";
  std::string frequency_penalty = "0";
  std::string presence_penalty = "0";
  std::string repeat_last = "64";
  std::vector<std::string> logit_bias;
  std::string seed = "0";
  std::vector<std::string> stop;
  std::string max_tokens = "512";
  std::string logprobs;
  std::string grammar;

  void add_to(CommandLine& app);
  [[nodiscard]] GenerateOptions options() const;
};

}  // namespace mzcache::tools
