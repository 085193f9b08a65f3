// `mzcache run`: one conversation, its turns given on the command line, evictions between them.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client.h"
#include "command.h"
#include "conversation_json.h"
#include "mzcache/runtime.h"
#include "options.h"
#include "report_json.h"
#include "token_text.h"
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
  std::string thinking = "default";
  std::vector<std::string> evictions;
  std::string codec;
  std::string order;
  bool json = false;
};

// What is sent as one user turn: text, or ids as they are.
using Turn = std::variant<std::string, std::vector<Token>>;

// -p, -f and --tokens in the order they were written.
std::vector<Turn> collect_turns(const CommandLine& app, const RunOptions& options) {
  std::vector<Turn> turns;
  std::size_t prompt = 0;
  std::size_t file = 0;
  std::size_t ids = 0;
  for (const Option option : app.parse_order()) {
    if (option.is("-p")) {
      turns.emplace_back(options.prompts.at(prompt++));
    } else if (option.is("-f")) {
      turns.emplace_back(read_text_file(options.files.at(file++)));
    } else if (option.is("--tokens")) {
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
  Conversation(Client& client, const Model& model, Session session, const RunOptions& options,
               GenerateOptions generate, std::vector<Amount> evictions)
      : client_(client),
        model_(model),
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
      std::fputs(("\n" + logprob_lines(report.logprobs, model_)).c_str(), stdout);
      std::fflush(stdout);
      describe(report);
    }
    return std::move(report);
  }

  Client& client_;
  const Model& model_;
  Session session_;
  const RunOptions& options_;
  GenerateOptions generate_;
  std::vector<Amount> evictions_;
  std::vector<TurnResult> results_;
};

// What only the model tells: which ids there are.
void check_with_model(const Model& model, const std::vector<Turn>& turns,
                      const GenerateOptions& generate) {
  const std::uint32_t vocabulary = model.info().vocabulary;
  for (const Turn& turn : turns) {
    const auto* ids = std::get_if<std::vector<Token>>(&turn);
    if (ids != nullptr) check_ids("--tokens", *ids, vocabulary);
  }
  check_bias(generate, vocabulary);
}

int run(const CommandLine& app, const RunOptions& options) {
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
  session.thinking = thinking_value("--thinking", options.thinking);
  const Config config = make_config(options);

  Client client(config);
  const Model model = client.load(options.model);
  check_with_model(model, turns, generate);
  const bool with_logprobs = generate.logprobs >= 0;
  Conversation conversation(client, model, model.open_session(session), options,
                            std::move(generate), std::move(evictions));
  conversation.run(turns);
  if (options.json) print_json(to_json(client, model, conversation.results(), with_logprobs));
  client.write_trace();
  client.throw_if_interrupted();
  return kExitDone;
}

}  // namespace

void add_run(CommandLine& app, Commands& commands) {
  auto options = std::make_shared<RunOptions>();
  CommandLine& command = app.add_subcommand("run", "Answer the turns of one conversation");
  command.add_option("-m,--model", options->model, "GGUF file").type_name("FILE");
  command.add_option("-p,--prompt", options->prompts, "A user turn; repeatable").type_name("TEXT");
  command.add_option("-f,--file", options->files, "A user turn from a file; repeatable")
      .type_name("FILE");
  command.add_option("--tokens", options->tokens, "A turn of ids: 1,2,3 or @FILE; repeatable")
      .type_name("IDS");
  command.add_option("--system", options->system, "System message").type_name("TEXT");
  command.add_flag("--raw", options->raw, "No chat template; special tokens in the text count");
  command.add_option("-c,--context", options->context, "Context limit in tokens (8k = 8192)")
      .type_name("N");
  command.add_option("--chat-template", options->chat_template, "Family, or raw").type_name("NAME");
  command.add_option("--thinking", options->thinking, "Of models that can: on, off or default")
      .show_default()
      .type_name("MODE");
  command
      .add_option("--evict", options->evictions,
                  "Before every turn after the first: 50%, 64MiB or none; repeatable")
      .type_name("AMOUNT");
  command.add_option("--codec", options->codec, "Of the in-memory swap; none: nothing lossy")
      .type_name("NAME");
  command.add_option("--order", options->order, "backward-out, forward-out, random-out or optimal")
      .type_name("ORDER");
  options->sampling.add_to(command);
  options->common.add_to(command);
  command.add_flag("--json", options->json, "One JSON object on stdout");
  command.footer(
      "Example:\n  mzcache run -m models/SmolLM2-135M-Instruct.Q4_1.gguf \\\n"
      "    -p 'Name the capital of France.' -p 'And of Italy?' --evict 50%");
  commands.push_back({&command, [&command, options] { return run(command, *options); }});
}

}  // namespace mzcache::tools
