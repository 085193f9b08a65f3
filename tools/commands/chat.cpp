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

#include "as_tuple.h"
#include "client.h"
#include "command.h"
#include "line_reader.h"
#include "mzcache/runtime.h"
#include "options.h"
#include "report_json.h"
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
  std::string codec;
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
  Chat(Client& client, Session session, GenerateOptions generate)
      : client_(client),
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
    message.options.on_token = [](std::string_view piece) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    };
    answering_ = true;
    const auto [error, report] = co_await send_cancellable(std::move(message));
    answering_ = false;
    std::fputs("\n", stdout);
    std::fflush(stdout);
    const std::string line = trouble(error, report.detail);
    if (!line.empty()) {
      say("failed: " + line);
    } else {
      const bool cancelled = error == ErrorCode::kCancelled;
      say(fmt::format("[{}; first token after {:.0f} ms, {:.1f} tokens/s]",
                      cancelled ? "cancelled" : stop_reason_name(report.stop), report.ttft_ms,
                      report.decode_tokens_per_s));
    }
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
      std::fputs(kHelp, stdout);
      std::fflush(stdout);
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

  static void say(const std::string& line) {
    std::fputs((line + "\n").c_str(), stdout);
    std::fflush(stdout);
  }
  void prompt() const {
    if (!terminal_) return;
    std::fputs("> ", stdout);
    std::fflush(stdout);
  }

  Client& client_;
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
};

int run(const ChatOptions& options) {
  need("-m", options.model, "a GGUF file");
  GenerateOptions generate = options.sampling.options();
  generate.system = options.system;
  SessionOptions session;
  if (!options.context.empty()) session.context_tokens = tokens_value("-c", options.context, 1);
  session.chat_template = options.chat_template;
  Config config = options.common.config();
  if (!options.codec.empty()) {
    set_from_flag(config, "--codec", "memory.codec", options.codec);
    config.set("memory.storage_codec=none");
  }
  Client client(config);
  const Model model = client.load(options.model);
  Chat chat(client, model.open_session(session), std::move(generate));
  const bool left = chat.run();
  if (!config.trace.file.empty()) client.runtime().write_trace(config.trace.file);
  return left ? kExitDone : kExitInterrupted;
}

}  // namespace

void add_chat(CLI::App& app, Commands& commands) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* command = app.add_subcommand("chat", "Talk to a model");
  command->add_option("-m,--model", options->model, "GGUF file")->type_name("FILE");
  command->add_option("--system", options->system, "System message")->type_name("TEXT");
  command->add_option("-c,--context", options->context, "Context limit in tokens (8k = 8192)")
      ->type_name("N");
  command->add_option("--chat-template", options->chat_template, "Family, or raw")
      ->type_name("NAME");
  command->add_option("--codec", options->codec, "Of the in-memory swap; none: nothing lossy")
      ->type_name("NAME");
  options->sampling.add_to(*command);
  options->common.add_to(*command);
  command->footer(std::string("In the conversation:\n") + kHelp +
                  "\nExample:\n  mzcache chat -m models/SmolLM2-135M-Instruct.Q4_1.gguf");
  commands.push_back({command, [options] { return run(*options); }});
}

}  // namespace mzcache::tools
