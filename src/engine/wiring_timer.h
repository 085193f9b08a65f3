// The engine's timer on a thread of its own, which starts with the first use.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/engine_state.h"

namespace mzcache::engine {

// Thread-safe. After the destructor nothing is called any more.
class ThreadTimer final : public Timer {
 public:
  ThreadTimer() = default;
  ~ThreadTimer() override {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }
  ThreadTimer(const ThreadTimer&) = delete;
  ThreadTimer& operator=(const ThreadTimer&) = delete;

  void after(actors::Nanoseconds delay, std::function<void()> call) override {
    {
      const std::lock_guard lock(mutex_);
      if (!thread_.joinable()) thread_ = std::thread([this] { context_.run(); });
    }
    auto timer = std::make_shared<asio::steady_timer>(context_, delay);
    timer->async_wait([timer, call = std::move(call)](std::error_code error) {
      if (!error) call();
    });
  }

 private:
  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ =
      asio::make_work_guard(context_);
  std::mutex mutex_;
  std::thread thread_;
};

}  // namespace mzcache::engine
