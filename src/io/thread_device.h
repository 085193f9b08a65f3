// The second choice behind the BlockDevice port: a small pool of threads that call pread and
// pwrite.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "actors/ports.h"
#include "io/fixed_queue.h"
#include "io/storage.h"
#include "io/throttle.h"

namespace mzcache::io {

// Threads start with the first flush(), so that they inherit their owner's placement and priority.
// One mutex guards what owner and pool share; it is never held during a transfer.
class ThreadDevice final : public actors::BlockDevice {
 public:
  ThreadDevice(std::shared_ptr<StorageFiles> files, const StorageOptions& options);
  ~ThreadDevice() override;
  ThreadDevice(const ThreadDevice&) = delete;
  ThreadDevice& operator=(const ThreadDevice&) = delete;

  void wait() noexcept override;
  void wake() noexcept override;
  void set_notify(std::function<void()>) override {}
  [[nodiscard]] std::size_t depth() const noexcept override { return depth_; }
  [[nodiscard]] std::uint64_t block_bytes() const noexcept override { return block_; }
  [[nodiscard]] Result<void> submit(const actors::BlockRequest& request) override;
  void flush() override;
  [[nodiscard]] std::size_t reap(std::span<actors::BlockCompletion> out) noexcept override;
  [[nodiscard]] Result<void> grow(actors::FileId file, std::uint64_t bytes) override;
  [[nodiscard]] std::string name(actors::FileId file) const override { return files_->name(file); }

 private:
  struct Job {
    actors::BlockRequest request;
    Transfer transfer;
    Throttle::Time start;  // not before
  };

  void work() noexcept;
  // At least one thread, or no memory for any.
  void start_threads() noexcept;

  const std::shared_ptr<StorageFiles> files_;
  const std::size_t depth_;
  const std::uint64_t block_;

  // The owner's.
  FixedQueue<Job> submitted_;
  std::size_t in_flight_ = 0;  // submitted and not reaped
  Throttle throttle_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  std::condition_variable work_there_;
  std::condition_variable owner_wanted_;
  FixedQueue<Job> jobs_;
  FixedQueue<actors::BlockCompletion> done_;
  bool woken_ = false;
  bool closing_ = false;
};

}  // namespace mzcache::io
