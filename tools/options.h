// Flags that several commands have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "mzcache/config.h"
#include "mzcache/messages.h"

namespace mzcache::tools {

// --config, --set, --device, --trace: every command that runs a model.
struct CommonOptions {
  std::string config_file;
  std::vector<std::string> assignments;
  std::string device;
  std::string trace_file;

  void add_to(CLI::App& app);
  // File, then --set, then the flags of their own. UsageError for a bad flag.
  [[nodiscard]] Config config() const;
};

// Config::set for the value of a flag: errors name the flag and what is allowed.
void set_from_flag(Config& config, const std::string& flag, const std::string& key,
                   const std::string& value);

// --temp, --top-k, … of run and chat.
struct SamplingFlags {
  std::string temperature = "0";
  std::string top_k = "0";
  std::string top_p = "1";
  std::string min_p = "0";
  std::string repeat_penalty = "1";
  std::string frequency_penalty = "0";
  std::string presence_penalty = "0";
  std::vector<std::string> logit_bias;
  std::string seed = "0";
  std::vector<std::string> stop;
  std::string max_tokens = "512";
  std::string logprobs;
  std::string grammar;

  void add_to(CLI::App& app);
  [[nodiscard]] GenerateOptions options() const;
};

}  // namespace mzcache::tools
