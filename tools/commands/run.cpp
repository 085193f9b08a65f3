// `mzcache run`: one conversation, its turns given on the command line, evictions between them.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client.h"
#include "command.h"
#include "mzcache/runtime.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct RunOptions {
  CommonOptions common;
  SamplingFlags sampling;
  std::string model;
  std::vector<std::string> prompts;
  std::vector<std::string> files;
  std::vector<std::string> tokens;
  std::string system;
  bool raw = false;
  std::string context;
  std::string chat_template;
  std::vector<std::string> evictions;
  std::string codec;
  std::string order;
  bool json = false;
};

// What is sent as one user turn: text, or ids as they are.
using Turn = std::variant<std::string, std::vector<Token>>;

struct TurnResult {
  std::vector<EvictReport> evictions;
  Answer answer;
};

// -p, -f and --tokens in the order they were written.
std::vector<Turn> collect_turns(const CLI::App& app, const RunOptions& options) {
  std::vector<Turn> turns;
  std::size_t prompt = 0;
  std::size_t file = 0;
  std::size_t ids = 0;
  for (const CLI::Option* option : app.parse_order()) {
    if (option == app.get_option("-p")) {
      turns.emplace_back(options.prompts.at(prompt++));
    } else if (option == app.get_option("-f")) {
      turns.emplace_back(read_text_file(options.files.at(file++)));
    } else if (option == app.get_option("--tokens")) {
      turns.emplace_back(token_list("--tokens", options.tokens.at(ids++)));
    }
  }
  if (turns.empty()) throw UsageError("nothing to say: give -p TEXT, -f FILE or --tokens IDS");
  return turns;
}

Config make_config(const RunOptions& options) {
  Config config = options.common.config();
  if (!options.codec.empty()) {
    // Both paths at once: what the flag names for memory, nothing lossy in the swap file.
    set_from_flag(config, "--codec", "memory.codec", options.codec);
    config.set("memory.storage_codec=none");
  }
  if (!options.order.empty()) set_from_flag(config, "--order", "policy.order", options.order);
  return config;
}

void describe(const EvictReport& report) {
  std::fprintf(stderr, "[evicted %s of %s in %.0f ms; %.1f %% remains]\n",
               human_bytes(static_cast<double>(report.freed_bytes)).c_str(),
               human_bytes(static_cast<double>(report.requested_bytes)).c_str(), report.ms,
               report.remaining_percent);
}

void describe(const Answer& answer) {
  std::fprintf(stderr,
               "[%u prompt tokens, %zu generated (%s), first token after %.0f ms, %.1f/s]\n",
               answer.prompt_tokens, answer.tokens.size(), stop_reason_name(answer.stop),
               answer.ttft_ms, answer.decode_tokens_per_s);
}

class Conversation {
 public:
  Conversation(Client& client, Session session, const RunOptions& options, GenerateOptions generate,
               std::vector<Amount> evictions)
      : client_(client),
        session_(session),
        options_(options),
        generate_(std::move(generate)),
        evictions_(std::move(evictions)) {}

  // Stops early where Ctrl-C ends a turn.
  void run(const std::vector<Turn>& turns) {
    for (const Turn& turn : turns) {
      TurnResult result;
      if (!results_.empty()) result.evictions = evict();
      if (client_.interrupted()) return;
      result.answer = answer(turn);
      results_.push_back(std::move(result));
      if (client_.interrupted()) return;
    }
  }
  [[nodiscard]] const std::vector<TurnResult>& results() const { return results_; }

 private:
  std::vector<EvictReport> evict() {
    std::vector<EvictReport> reports;
    for (const Amount& amount : evictions_) {
      auto [error, report] = client_.send(Evict{amount});
      require(error, report.detail);
      if (!options_.json) describe(report);
      reports.push_back(std::move(report));
      if (client_.interrupted()) break;
    }
    return reports;
  }

  Answer answer(const Turn& turn) {
    Generate message{session_, {}, generate_, {}};
    if (const auto* text = std::get_if<std::string>(&turn)) {
      message.prompt = *text;
    } else {
      message.tokens = std::get<std::vector<Token>>(turn);
    }
    if (!options_.json) {
      message.options.on_token = [](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
      };
    }
    auto [error, report] = client_.send(std::move(message));
    // A cancelled answer still counts, as far as it came.
    if (error == ErrorCode::kCancelled) report.stop = StopReason::kCancelled;
    if (error && error != ErrorCode::kCancelled) require(error, report.detail);
    if (!options_.json) {
      std::fputs("\n", stdout);
      std::fflush(stdout);
      describe(report);
    }
    return std::move(report);
  }

  Client& client_;
  Session session_;
  const RunOptions& options_;
  GenerateOptions generate_;
  std::vector<Amount> evictions_;
  std::vector<TurnResult> results_;
};

Json turn_json(const TurnResult& result) {
  Json evictions = Json::array();
  for (const EvictReport& report : result.evictions) evictions.push_back(to_json(report));
  const Answer& answer = result.answer;
  return {{"prompt_tokens", answer.prompt_tokens},
          {"context_tokens", answer.context_tokens},
          {"tokens", answer.tokens},
          {"text", answer.text},
          {"stop", stop_reason_name(answer.stop)},
          {"ttft_ms", answer.ttft_ms},
          {"prefill_ms", answer.prefill_ms},
          {"decode_tokens_per_s", answer.decode_tokens_per_s},
          {"evictions", evictions},
          {"restore", to_json(answer.restore)}};
}

Json run_json(Client& client, const ModelInfo& info, const std::vector<TurnResult>& results) {
  Json turns = Json::array();
  for (const TurnResult& result : results) turns.push_back(turn_json(result));
  const DeviceSummary device = client.runtime().device();
  const auto [error, status] = client.send(Status{});
  require(error, status.detail);
  return {{"model",
           {{"name", info.name},
            {"architecture", info.architecture},
            {"weights_bytes", info.weights_bytes},
            {"file", info.file}}},
          {"device", {{"name", device.name}, {"memory", device.memory}}},
          {"turns", turns},
          {"load", to_json(client.runtime().load_report())},
          {"footprint_bytes", status.footprint_bytes},
          {"scratch_bytes", status.scratch_bytes},
          {"floor_bytes", status.floor_bytes},
          {"peak_rss_bytes", peak_rss_bytes()}};
}

int run(const CLI::App& app, const RunOptions& options) {
  need("-m", options.model, "a GGUF file");
  const std::vector<Turn> turns = collect_turns(app, options);
  GenerateOptions generate = options.sampling.options();
  generate.system = options.system;
  generate.raw = options.raw;
  std::vector<Amount> evictions;
  evictions.reserve(options.evictions.size());
  for (const std::string& amount : options.evictions) {
    evictions.push_back(amount_value("--evict", amount));
  }
  SessionOptions session;
  if (!options.context.empty()) session.context_tokens = tokens_value("-c", options.context, 1);
  session.chat_template = options.chat_template;
  const Config config = make_config(options);

  Client client(config);
  const Model model = client.load(options.model);
  Conversation conversation(client, model.open_session(session), options, std::move(generate),
                            std::move(evictions));
  conversation.run(turns);
  if (options.json) print_json(run_json(client, model.info(), conversation.results()));
  if (!config.trace.file.empty()) client.runtime().write_trace(config.trace.file);
  client.throw_if_interrupted();
  return kExitDone;
}

}  // namespace

void add_run(CLI::App& app, Commands& commands) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Answer the turns of one conversation");
  command->add_option("-m,--model", options->model, "GGUF file")->type_name("FILE");
  command->add_option("-p,--prompt", options->prompts, "A user turn; repeatable")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command->add_option("-f,--file", options->files, "A user turn from a file; repeatable")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_option("--tokens", options->tokens, "A turn of ids: 1,2,3 or @FILE; repeatable")
      ->type_name("IDS")
      ->allow_extra_args(false);
  command->add_option("--system", options->system, "System message")->type_name("TEXT");
  command->add_flag("--raw", options->raw, "No chat template; special tokens in the text count");
  command->add_option("-c,--context", options->context, "Context limit in tokens (8k = 8192)")
      ->type_name("N");
  command->add_option("--chat-template", options->chat_template, "Family, or raw")
      ->type_name("NAME");
  command
      ->add_option("--evict", options->evictions,
                   "Before every turn after the first: 50%, 64MiB or none; repeatable")
      ->type_name("AMOUNT")
      ->allow_extra_args(false);
  command->add_option("--codec", options->codec, "Of the in-memory swap; none: nothing lossy")
      ->type_name("NAME");
  command->add_option("--order", options->order, "backward-out, forward-out, random-out or optimal")
      ->type_name("ORDER");
  options->sampling.add_to(*command);
  options->common.add_to(*command);
  command->add_flag("--json", options->json, "One JSON object on stdout");
  command->footer(
      "Example:\n  mzcache run -m models/SmolLM2-135M-Instruct.Q4_1.gguf \\\n"
      "    -p 'What is the capital of France?' -p 'And of Italy?' --evict 50%");
  commands.push_back({command, [command, options] { return run(*command, *options); }});
}

}  // namespace mzcache::tools
