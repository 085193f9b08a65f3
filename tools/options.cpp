#include "options.h"

#include <cstdio>
#include <limits>

#include "mzcache/grammar.h"
#include "mzcache/runtime.h"
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

void write_empty_trace(const std::string& file) {
  Runtime().write_trace(file);
  std::fprintf(stderr, "mzcache: nothing is recorded in this command, the trace is empty: %s\n",
               file.c_str());
}

}  // namespace

void CommonOptions::add_to(CommandLine& app) {
  app.add_option("--config", config_file_, "Configuration file (TOML)").type_name("FILE");
  app.add_option("--set", assignments_, "One configuration key; overrides the file; repeatable")
      .type_name("KEY=VALUE");
  app.add_option("--device", device_, "OpenCL device whose name contains this")
      .type_name("SUBSTRING");
  app.add_option("--trace", trace_file_,
                 records_
                     ? "Write the actors' timelines (Chrome/Perfetto JSON)"
                     : "The same file as of a run, but without spans: nothing is recorded here")
      .type_name("FILE");
}

void CommonOptions::add_without_timelines_to(CommandLine& app) {
  records_ = false;
  add_to(app);
}

Config CommonOptions::config() const {
  Config config = config_file_.empty() ? Config{} : Config::load(config_file_);
  for (const std::string& assignment : assignments_) {
    try {
      config.set(assignment);
    } catch (const Exception& exception) {
      if (exception.error().code != ErrorCode::kBadConfig) throw;
      throw UsageError(exception.error().message());
    }
  }
  if (!device_.empty()) config.device.name = device_;
  if (!records_) {
    // Only what the flag names: a file in the configuration may hold the trace of a run.
    config.trace.file.clear();
    if (!trace_file_.empty()) write_empty_trace(trace_file_);
    return config;
  }
  if (!trace_file_.empty()) config.trace.file = trace_file_;
  if (!config.trace.file.empty()) check_can_write(config.trace.file);
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

void check_bias(const GenerateOptions& options, std::uint32_t vocabulary) {
  for (const auto& [id, bias] : options.logit_bias) check_ids("--logit-bias", {id}, vocabulary);
}

Thinking thinking_value(std::string_view flag, const std::string& text) {
  const std::string choice = choice_value(flag, text, {"default", "on", "off"});
  if (choice == "default") return Thinking::kDefault;
  return choice == "on" ? Thinking::kOn : Thinking::kOff;
}

void SamplingFlags::add_to(CommandLine& app) {
  app.add_option("-n,--max-tokens", max_tokens, "Tokens an answer may have (8k = 8192)")
      .show_default()
      .type_name("N");
  app.add_option("--temp", temperature, "Temperature; 0 is greedy").show_default().type_name("T");
  app.add_option("--top-k", top_k, "Keep the K likeliest tokens; 0 keeps all")
      .show_default()
      .type_name("K");
  app.add_option("--top-p", top_p, "Keep the likeliest tokens up to this probability")
      .show_default()
      .type_name("P");
  app.add_option("--min-p", min_p, "Drop tokens below this share of the likeliest")
      .show_default()
      .type_name("P");
  app.add_option("--repeat-penalty", repeat_penalty, "1 is none").show_default().type_name("X");
  app.add_option("--frequency-penalty", frequency_penalty, "0 is none")
      .show_default()
      .type_name("X");
  app.add_option("--presence-penalty", presence_penalty, "0 is none").show_default().type_name("X");
  app.add_option("--logit-bias", logit_bias, "Added to a token's logit; repeatable")
      .type_name("ID=BIAS");
  app.add_option("--seed", seed, "Of the draws; 0: a new one each time")
      .show_default()
      .type_name("N");
  app.add_option("--stop", stop, "End the answer before this text; repeatable").type_name("TEXT");
  app.add_option("--repeat-last", repeat_last, "How many tokens back the penalties look")
      .show_default()
      .type_name("N");
  app.add_option("--logprobs", logprobs, "How likely each token was, beside the N likeliest")
      .type_name("N");
  app.add_option("--grammar", grammar, "GBNF that the answer follows; json: any JSON")
      .type_name("FILE");
}

GenerateOptions SamplingFlags::options() const {
  GenerateOptions options;
  if (!logprobs.empty()) {
    options.logprobs = static_cast<std::int32_t>(integer_value("--logprobs", logprobs, 0, 1000));
  }
  if (grammar == "json") {
    options.grammar = json_grammar();
  } else if (!grammar.empty()) {
    options.grammar = read_text_file(grammar);
    check_grammar(options.grammar, grammar);
  }
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
  options.repeat_last = static_cast<std::uint32_t>(tokens_value("--repeat-last", repeat_last, 0));
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
