#include "client.h"

#include <unistd.h>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <thread>

#include "usage.h"

namespace mzcache::tools {

void require(std::error_code error, const std::string& detail) {
  if (!error) return;
  if (error == ErrorCode::kCancelled) throw Interrupted();
  // The detail is the whole line; the code alone is the poorer second choice.
  const auto code = error.category() == mzcache_category() ? static_cast<ErrorCode>(error.value())
                                                           : ErrorCode::kInternal;
  throw Exception(Error{code, 0, detail.empty() ? error.message() : detail, ""});
}

Client::Client(const Config& config)
    : signals_(context_, SIGINT, SIGTERM), trace_file_(config.trace.file) {
  wait_for_signal();
  runtime_ = std::make_unique<Runtime>(config, [](std::string_view notice) {
    std::fprintf(stderr, "mzcache: %.*s\n", static_cast<int>(notice.size()), notice.data());
  });
}

Client::~Client() {
  signals_.cancel();
  runtime_.reset();
}

void Client::wait_for_signal() {
  signals_.async_wait([this](std::error_code error, int signal) {
    if (error) return;
    if (on_signal_) {
      on_signal_(signal);
    } else {
      interrupt();
    }
    wait_for_signal();
  });
}

void Client::interrupt() {
  ++interruptions_;
  // Nothing can be released in a hurry: a second one ends the process as it is. The swap file has
  // no name and goes with it.
  if (interruptions_ > 1) ::_exit(kExitInterrupted);
  if (cancel_ != nullptr) cancel_->emit(asio::cancellation_type::terminal);
}

void Client::pump(const std::function<bool()>& done) {
  const auto work = asio::make_work_guard(context_);
  context_.restart();
  while (!done()) context_.run_one();
}

Model Client::load(const std::string& file) {
  std::optional<Model> model;
  std::exception_ptr failure;
  bool done = false;
  // In a thread of its own, so that signals are answered meanwhile.
  std::thread loading([&] {
    try {
      model.emplace(runtime_->load(file));
    } catch (...) {
      failure = std::current_exception();
    }
    asio::post(context_, [&done] { done = true; });
  });
  pump([&done] { return done; });
  loading.join();
  throw_if_interrupted();
  if (failure) std::rethrow_exception(failure);
  return std::move(*model);
}

void Client::write_trace() {
  if (!trace_file_.empty()) runtime_->write_trace(trace_file_);
}

void Client::throw_if_interrupted() const {
  if (interrupted()) throw Interrupted();
}

}  // namespace mzcache::tools
