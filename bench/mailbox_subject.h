// What bench_mailbox measures: something that counts messages on a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

namespace mzcache::bench {

// What the receiving end of every subject does with a message. Written by the receiver alone; the
// receiver's `reached` tells the measuring thread.
class Tally {
 public:
  // Before messages flow.
  void expect(std::uint64_t count) noexcept {
    left_ = count;
    reached_.store(false, std::memory_order_release);
  }
  void count() noexcept {
    if (--left_ != 0) return;
    at_ = std::chrono::steady_clock::now();
    reached_.store(true, std::memory_order_release);
    reached_.notify_one();
  }
  // Blocks until the expected count was reached; when that was.
  std::chrono::steady_clock::time_point wait() noexcept {
    reached_.wait(false, std::memory_order_acquire);
    return at_;
  }

 private:
  std::uint64_t left_ = 0;
  std::chrono::steady_clock::time_point at_;
  std::atomic<bool> reached_{false};
};

class MailboxSubject {
 public:
  virtual ~MailboxSubject() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // One producer's part: posts `count` messages. Called by several threads at once.
  virtual void post(std::uint64_t count) = 0;
  Tally tally;
};

// A fresh actor of CAF on a thread of its own; null where the build found no CAF.
[[nodiscard]] std::unique_ptr<MailboxSubject> make_caf_subject();

}  // namespace mzcache::bench
