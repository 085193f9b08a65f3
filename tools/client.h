// A Runtime and the one thread that talks to it: sends a message and waits, while Ctrl-C and
// SIGTERM cancel what is under way. Not thread-safe: everything from one thread.
#pragma once

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "mzcache/runtime.h"

namespace mzcache::tools {

// Throws Exception with the message's detail where it failed, Interrupted where Ctrl-C ended it.
void require(std::error_code error, const std::string& detail);

class Client {
 public:
  explicit Client(const Config& config);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Reads the model's metadata; throws as Runtime::load does, or Interrupted.
  [[nodiscard]] Model load(const std::string& file);

  // The answer and how it went; a Ctrl-C meanwhile cancels the message.
  template <class Message>
  std::pair<std::error_code, typename Message::Report> send(Message message) {
    std::optional<std::pair<std::error_code, typename Message::Report>> reply;
    asio::cancellation_signal cancel;
    cancel_ = &cancel;
    runtime_->send(
        std::move(message),
        asio::bind_cancellation_slot(
            cancel.slot(), asio::bind_executor(context_, [&reply](std::error_code error,
                                                                  typename Message::Report report) {
              reply.emplace(error, std::move(report));
            })));
    pump([&reply] { return reply.has_value(); });
    cancel_ = nullptr;
    return std::move(*reply);
  }
  // The same for messages whose partial results are of no use.
  template <class Message>
  typename Message::Report ask(Message message) {
    auto [error, report] = send(std::move(message));
    require(error, report.detail);
    throw_if_interrupted();
    return std::move(report);
  }

  // What Ctrl-C and SIGTERM do from now on, on the context's thread; replaces cancelling.
  void on_signal(std::function<void(int signal)> handler) { on_signal_ = std::move(handler); }
  [[nodiscard]] bool interrupted() const noexcept { return interruptions_ > 0; }
  void throw_if_interrupted() const;
  [[nodiscard]] Runtime& runtime() noexcept { return *runtime_; }
  // The timelines so far, where the configuration names a file for them.
  void write_trace();
  [[nodiscard]] asio::io_context& context() noexcept { return context_; }

 private:
  void wait_for_signal();
  void interrupt();
  void pump(const std::function<bool()>& done);

  asio::io_context context_;
  asio::signal_set signals_;
  asio::cancellation_signal* cancel_ = nullptr;
  std::function<void(int)> on_signal_;
  int interruptions_ = 0;
  std::string trace_file_;
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace mzcache::tools
