#include "options.h"

#include <limits>

#include "usage.h"

namespace mzcache::tools {
namespace {

// "42=-5": the token's id and what is added to its logit.
std::pair<Token, float> bias_value(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) refuse("--logit-bias", text, "ID=BIAS, for example 42=-5");
  const auto id =
      integer_value("--logit-bias", text.substr(0, equals), 0, std::numeric_limits<Token>::max());
  const auto bias = number_value("--logit-bias", text.substr(equals + 1), -1e6, 1e6);
  return {static_cast<Token>(id), static_cast<float>(bias)};
}

}  // namespace

void CommonOptions::add_to(CLI::App& app) {
  app.add_option("--config", config_file, "Configuration file (TOML)")->type_name("FILE");
  app.add_option("--set", assignments, "One configuration key; overrides the file; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--device", device, "OpenCL device whose name contains this")
      ->type_name("SUBSTRING");
  app.add_option("--trace", trace_file, "Write the actors' timelines (Chrome/Perfetto JSON)")
      ->type_name("FILE");
}

Config CommonOptions::config() const {
  Config config = config_file.empty() ? Config{} : Config::load(config_file);
  for (const std::string& assignment : assignments) {
    try {
      config.set(assignment);
    } catch (const Exception& exception) {
      if (exception.error().code != ErrorCode::kBadConfig) throw;
      throw UsageError(exception.error().message());
    }
  }
  if (!device.empty()) config.device.name = device;
  if (!trace_file.empty()) config.trace.file = trace_file;
  return config;
}

void set_from_flag(Config& config, const std::string& flag, const std::string& key,
                   const std::string& value) {
  try {
    config.set(key + "=" + value);
  } catch (const Exception& exception) {
    Error error = exception.error();
    error.operation = flag;
    if (error.code == ErrorCode::kBadConfig) throw UsageError(error.message());
    throw Exception(std::move(error));
  }
}

void SamplingFlags::add_to(CLI::App& app) {
  app.add_option("-n,--max-tokens", max_tokens, "Tokens an answer may have (8k = 8192)")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--temp", temperature, "Temperature; 0 is greedy")
      ->capture_default_str()
      ->type_name("T");
  app.add_option("--top-k", top_k, "Keep the K likeliest tokens; 0 keeps all")
      ->capture_default_str()
      ->type_name("K");
  app.add_option("--top-p", top_p, "Keep the likeliest tokens up to this probability")
      ->capture_default_str()
      ->type_name("P");
  app.add_option("--min-p", min_p, "Drop tokens below this share of the likeliest")
      ->capture_default_str()
      ->type_name("P");
  app.add_option("--repeat-penalty", repeat_penalty, "1 is none")
      ->capture_default_str()
      ->type_name("X");
  app.add_option("--frequency-penalty", frequency_penalty, "0 is none")
      ->capture_default_str()
      ->type_name("X");
  app.add_option("--presence-penalty", presence_penalty, "0 is none")
      ->capture_default_str()
      ->type_name("X");
  app.add_option("--logit-bias", logit_bias, "Added to a token's logit; repeatable")
      ->type_name("ID=BIAS")
      ->allow_extra_args(false);
  app.add_option("--seed", seed, "Of the draws; 0: a new one each time")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--stop", stop, "End the answer before this text; repeatable")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app.add_option("--logprobs", logprobs, "Not yet")->type_name("N");
  app.add_option("--grammar", grammar, "Not yet")->type_name("FILE");
}

GenerateOptions SamplingFlags::options() const {
  if (!logprobs.empty()) not_yet("--logprobs");
  if (!grammar.empty()) not_yet("--grammar");
  GenerateOptions options;
  options.max_tokens = tokens_value("-n", max_tokens, 1);
  options.temperature = static_cast<float>(number_value("--temp", temperature, 0, 100));
  options.top_k = static_cast<std::uint32_t>(
      integer_value("--top-k", top_k, 0, std::numeric_limits<std::int32_t>::max()));
  options.top_p = static_cast<float>(number_value("--top-p", top_p, 0, 1));
  options.min_p = static_cast<float>(number_value("--min-p", min_p, 0, 1));
  options.repeat_penalty =
      static_cast<float>(number_value("--repeat-penalty", repeat_penalty, 0.01, 100));
  options.frequency_penalty =
      static_cast<float>(number_value("--frequency-penalty", frequency_penalty, -100, 100));
  options.presence_penalty =
      static_cast<float>(number_value("--presence-penalty", presence_penalty, -100, 100));
  for (const std::string& bias : logit_bias) options.logit_bias.push_back(bias_value(bias));
  options.seed = static_cast<std::uint64_t>(
      integer_value("--seed", seed, 0, std::numeric_limits<std::int64_t>::max()));
  for (const std::string& text : stop) {
    if (text.empty()) refuse("--stop", text, "a text that is not empty");
  }
  options.stop = stop;
  return options;
}

}  // namespace mzcache::tools
