// `mzcache chat`: talk to a model; take its memory away and give it back meanwhile.
//
// One coroutine takes lines in order and answers them; in a terminal, /evict and /status act at
// once, even in the middle of an answer. Everything runs on the client's thread.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <csignal>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "as_tuple.h"
#include "client.h"
#include "command.h"
#include "conversation_json.h"
#include "line_reader.h"
#include "mzcache/runtime.h"
#include "options.h"
#include "report_json.h"
#include "token_text.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct ChatOptions {
  CommonOptions common;
  SamplingFlags sampling;
  std::string model;
  std::string system;
  std::string context;
  std::string chat_template;
  std::string thinking = "default";
  std::string codec;
  bool json = false;
};

constexpr const char* kHelp =
    "/evict AMOUNT  free memory now: 50%, 64MiB\n"
    "/restore       bring everything back\n"
    "/status        what is where\n"
    "/reset         forget the conversation\n"
    "/trace FILE    write the actors' timelines since the start or the last /trace\n"
    "/quit          leave; Ctrl-C stops an answer, twice leaves\n";

std::string bytes_text(std::uint64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

// The error a message completed with, as a line; empty where there was none.
std::string trouble(std::error_code error, const std::string& detail) {
  if (!error || error == ErrorCode::kCancelled) return {};
  return detail.empty() ? error.message() : detail;
}

class Chat {
 public:
  // `out`: where the conversation is shown.
  Chat(Client& client, const Model& model, Session session, GenerateOptions generate,
       std::FILE* out)
      : out_(out),
        client_(client),
        model_(model),
        session_(session),
        generate_(std::move(generate)),
        terminal_(::isatty(STDIN_FILENO) != 0),
        arrived_(client.context()) {}

  // Until /quit or the end of the input; false after two Ctrl-C in a row, or SIGTERM.
  bool run() {
    client_.runtime().start_trace();
    LineReader reader(client_.context().get_executor(),
                      [this](std::optional<std::string> line) { take(std::move(line)); });
    std::exception_ptr failure;
    asio::co_spawn(client_.context(), talk(), [this, &failure](std::exception_ptr error) {
      failure = std::move(error);
      client_.context().stop();
    });
    client_.on_signal([this](int signal) { interrupt(signal); });
    client_.context().restart();
    client_.context().run();
    if (failure) std::rethrow_exception(failure);
    return !interrupted_;
  }
  // What was asked and answered, and the evictions after the last answer.
  [[nodiscard]] const std::vector<TurnResult>& turns() const { return turns_; }
  [[nodiscard]] const std::vector<EvictReport>& evictions() const { return evictions_; }

 private:
  // Errors as values: a failed message is a line in the conversation, not its end.
  template <class Message>
  auto send(Message message) {
    return client_.runtime().send(std::move(message), as_tuple(asio::use_awaitable));
  }
  // The same, stopped by Ctrl-C.
  template <class Message>
  auto send_cancellable(Message message) {
    return client_.runtime().send(
        std::move(message),
        asio::bind_cancellation_slot(cancel_.slot(), as_tuple(asio::use_awaitable)));
  }

  void interrupt(int signal) {
    ++interruptions_;
    const bool first = interruptions_ == 1 && signal == SIGINT;
    if (first && answering_) {
      cancel_.emit(asio::cancellation_type::terminal);
      return;
    }
    if (first) {
      say("(Ctrl-C again leaves)");
      prompt();
      return;
    }
    leaving_ = true;
    interrupted_ = true;
    cancel_.emit(asio::cancellation_type::terminal);
    arrived_.cancel();
  }

  void take(std::optional<std::string> line) {
    if (!line) {
      ended_ = true;
    } else if (terminal_ && answering_ && acts_at_once(*line)) {
      asio::co_spawn(client_.context(), command(std::move(*line)), asio::detached);
    } else {
      lines_.push_back(std::move(*line));
    }
    arrived_.cancel();
  }
  static bool acts_at_once(const std::string& line) {
    return line.starts_with("/evict") || line.starts_with("/status");
  }

  asio::awaitable<void> talk() {
    if (terminal_) say("Type /help for commands.");
    while (!leaving_) {
      if (lines_.empty() && ended_) break;
      if (lines_.empty()) {
        prompt();
        co_await wait_for_line();
        continue;
      }
      const std::string line = std::move(lines_.front());
      lines_.pop_front();
      interruptions_ = 0;
      if (line.empty()) continue;
      if (line.front() == '/') {
        co_await command(line);
      } else {
        co_await answer(line);
      }
    }
  }

  asio::awaitable<void> wait_for_line() {
    while (lines_.empty() && !ended_ && !leaving_) {
      arrived_.expires_at(asio::steady_timer::time_point::max());
      co_await arrived_.async_wait(as_tuple(asio::use_awaitable));
    }
  }

  asio::awaitable<void> answer(std::string text) {
    Generate message{session_, std::move(text), generate_, {}};
    message.options.on_token = [out = out_](std::string_view piece) {
      std::fwrite(piece.data(), 1, piece.size(), out);
      std::fflush(out);
    };
    answering_ = true;
    auto [error, report] = co_await send_cancellable(std::move(message));
    answering_ = false;
    show("\n" + logprob_lines(report.logprobs, model_));
    const std::string line = trouble(error, report.detail);
    if (!line.empty()) {
      say("failed: " + line);
      co_return;
    }
    if (error == ErrorCode::kCancelled) report.stop = StopReason::kCancelled;
    say(fmt::format("[{}; first token after {:.0f} ms, {:.1f} tokens/s]",
                    stop_reason_name(report.stop), report.ttft_ms, report.decode_tokens_per_s));
    turns_.push_back({std::exchange(evictions_, {}), std::move(report)});
  }

  asio::awaitable<void> command(std::string line) {
    while (!line.empty() && line.back() == ' ') line.pop_back();
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::size_t first = line.find_first_not_of(' ', std::min(space, line.size()));
    const std::string argument = first == std::string::npos ? "" : line.substr(first);
    if (name == "/evict") {
      co_await evict(argument);
    } else if (name == "/restore") {
      co_await restore();
    } else if (name == "/status") {
      co_await status();
    } else if (name == "/reset") {
      const auto [error, report] = co_await send(Reset{session_});
      const std::string failed = trouble(error, report.detail);
      say(failed.empty() ? "[conversation forgotten]" : "failed: " + failed);
    } else if (name == "/trace") {
      write_trace(argument);
    } else if (name == "/quit") {
      leaving_ = true;
    } else {
      if (name != "/help") say("no command " + name + "; there are:");
      show(kHelp);
    }
  }

  asio::awaitable<void> evict(const std::string& argument) {
    const auto amount = parse_amount(argument);
    if (!amount) {
      say("/evict: " + amount.error().message());
      co_return;
    }
    const auto [error, report] = co_await send(Evict{*amount});
    const std::string failed = trouble(error, report.detail);
    if (!failed.empty()) {
      say("failed: " + failed);
      co_return;
    }
    say(fmt::format(
        "[evicted {} of {} in {:.0f} ms; memory of the process fell by {}; {:.1f} % remains]",
        bytes_text(report.freed_bytes), bytes_text(report.requested_bytes), report.ms,
        human_bytes(static_cast<double>(report.pss_drop_bytes)), report.remaining_percent));
    evictions_.push_back(report);
  }

  asio::awaitable<void> restore() {
    answering_ = true;  // Ctrl-C stops it too
    const auto [error, report] = co_await send_cancellable(Restore{});
    answering_ = false;
    const std::string failed = trouble(error, report.detail);
    say(!failed.empty() ? "failed: " + failed
                        : fmt::format("[restored: read {}, decoded {} in {:.0f} ms]",
                                      bytes_text(report.bytes_read),
                                      bytes_text(report.bytes_decoded), report.ms));
  }

  asio::awaitable<void> status() {
    const auto [error, report] = co_await send(Status{});
    const std::string failed = trouble(error, report.detail);
    if (!failed.empty()) {
      say("failed: " + failed);
      co_return;
    }
    const auto state = [](const char* name, const StatusReport::State& value) {
      return fmt::format("  {:<11} {:>4} units, {}\n", name, value.units, bytes_text(value.bytes));
    };
    say(fmt::format(
            "[{}; {:.1f} % remains of {} ({} weights, {} KV cache); {} tokens of context]\n",
            report.activity, report.remaining_percent, bytes_text(report.footprint_bytes),
            bytes_text(report.weights_bytes), bytes_text(report.kv_bytes), report.context_tokens) +
        state("resident", report.resident) + state("compressed", report.compressed) +
        state("stored", report.stored) + state("dropped", report.dropped) +
        fmt::format("  process {}, of it scratch {}, floor {}; in-memory swap {}, swap file {}",
                    bytes_text(report.process_bytes), bytes_text(report.scratch_bytes),
                    bytes_text(report.floor_bytes), bytes_text(report.memory_swap_bytes),
                    bytes_text(report.swap_file_bytes)));
  }

  void write_trace(const std::string& file) {
    if (file.empty()) {
      say("/trace: needs a FILE");
      return;
    }
    try {
      client_.runtime().write_trace(file);
      say("[trace written: " + file + "]");
    } catch (const Exception& exception) {
      say(std::string("failed: ") + exception.error().message());
    }
  }

  void show(const std::string& text) const {
    std::fputs(text.c_str(), out_);
    std::fflush(out_);
  }
  void say(const std::string& line) const { show(line + "\n"); }
  void prompt() const {
    if (terminal_) show("> ");
  }

  std::FILE* out_;
  Client& client_;
  const Model& model_;
  Session session_;
  GenerateOptions generate_;
  bool terminal_;
  std::deque<std::string> lines_;
  asio::steady_timer arrived_;  // cancelled when there is a line, or an end
  asio::cancellation_signal cancel_;
  bool answering_ = false;
  bool ended_ = false;
  bool leaving_ = false;
  bool interrupted_ = false;
  int interruptions_ = 0;  // since the last line
  std::vector<TurnResult> turns_;
  std::vector<EvictReport> evictions_;  // since the last answer
};

int run(const ChatOptions& options) {
  need("-m", options.model, "a GGUF file");
  GenerateOptions generate = options.sampling.options();
  generate.system = options.system;
  SessionOptions session;
  if (!options.context.empty()) session.context_tokens = tokens_value("-c", options.context, 1);
  session.chat_template = options.chat_template;
  session.thinking = thinking_value("--thinking", options.thinking);
  Config config = options.common.config();
  if (!options.codec.empty()) {
    set_from_flag(config, "--codec", "memory.codec", options.codec);
    config.set("memory.storage_codec=none");
  }
  Client client(config);
  const Model model = client.load(options.model);
  check_bias(generate, model.info().vocabulary);
  const bool with_logprobs = generate.logprobs >= 0;
  Chat chat(client, model, model.open_session(session), std::move(generate),
            options.json ? stderr : stdout);
  const bool left = chat.run();
  client.write_trace();
  if (options.json) {
    Json json = to_json(client, model, chat.turns(), with_logprobs);
    json["evictions_after"] = to_json(chat.evictions());
    print_json(json);
  }
  return left ? kExitDone : kExitInterrupted;
}

}  // namespace

void add_chat(CommandLine& app, Commands& commands) {
  auto options = std::make_shared<ChatOptions>();
  CommandLine& command = app.add_subcommand("chat", "Talk to a model");
  command.add_option("-m,--model", options->model, "GGUF file").type_name("FILE");
  command.add_option("--system", options->system, "System message").type_name("TEXT");
  command.add_option("-c,--context", options->context, "Context limit in tokens (8k = 8192)")
      .type_name("N");
  command.add_option("--chat-template", options->chat_template, "Family, or raw").type_name("NAME");
  command.add_option("--thinking", options->thinking, "Of models that can: on, off or default")
      .show_default()
      .type_name("MODE");
  command.add_option("--codec", options->codec, "Of the in-memory swap; none: nothing lossy")
      .type_name("NAME");
  options->sampling.add_to(command);
  options->common.add_to(command);
  command.add_flag("--json", options->json,
                   "At the end one JSON object as of run on stdout; the conversation on stderr");
  command.footer(std::string("In the conversation:\n") + kHelp +
                 "\nExample:\n  mzcache chat -m models/SmolLM2-135M-Instruct.Q4_1.gguf");
  commands.push_back({&command, [options] { return run(*options); }});
}

}  // namespace mzcache::tools
