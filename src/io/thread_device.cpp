#include "io/thread_device.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "io/page_cache.h"

namespace mzcache::io {
namespace {

using actors::BlockCompletion;
using actors::BlockRequest;

constexpr std::size_t kThreadsMax = 4;

std::int64_t transfer(const BlockRequest& request, const Transfer& transfer) noexcept {
  const int fd = transfer.file.fd;
  const auto offset = static_cast<off_t>(request.offset);
  const bool write = request.operation == BlockRequest::Operation::kWrite;
  const ssize_t moved = write ? ::pwrite(fd, request.buffer.data(), transfer.bytes, offset)
                              : ::pread(fd, request.buffer.data(), transfer.bytes, offset);
  if (moved < 0) return -errno;
  if (transfer.file.direct || moved == 0) return moved;
  const auto bytes = static_cast<std::uint64_t>(moved);
  const int failed = write ? write_back(fd, request.offset, bytes) : 0;
  drop_cached(fd, request.offset, bytes);
  return failed != 0 ? failed : moved;
}

}  // namespace

ThreadDevice::ThreadDevice(std::shared_ptr<StorageFiles> files, const StorageOptions& options)
    : files_(std::move(files)),
      depth_(options.depth),
      block_(options.block),
      submitted_(options.depth),
      throttle_(options.limit_bytes_per_s),
      jobs_(options.depth),
      done_(options.depth) {}

ThreadDevice::~ThreadDevice() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    jobs_.clear();
  }
  work_there_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadDevice::wait() noexcept {
  std::unique_lock lock(mutex_);
  owner_wanted_.wait(lock, [this] { return woken_ || !done_.empty(); });
  woken_ = false;
}

void ThreadDevice::wake() noexcept {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  owner_wanted_.notify_one();
}

Result<void> ThreadDevice::submit(const BlockRequest& request) {
  auto transfer = prepare_transfer(*files_, request);
  if (!transfer) return std::move(transfer).error();
  if (in_flight_ == depth_) {
    return Error{ErrorCode::kInternal, 0, "submit", "more requests than storage.depth in flight"};
  }
  ++in_flight_;
  submitted_.push({request, *transfer, {}});
  return {};
}

void ThreadDevice::flush() {
  if (submitted_.empty()) return;
  start_threads();
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    while (!submitted_.empty()) {
      Job job = submitted_.pop();
      const bool read = job.request.operation == BlockRequest::Operation::kRead;
      job.start = read ? throttle_.pay(job.transfer.bytes, now) : now;
      if (threads_.empty()) {
        done_.push({job.request.tag, -ENOMEM});
      } else {
        jobs_.push(job);
      }
    }
  }
  work_there_.notify_all();
}

void ThreadDevice::start_threads() noexcept {
  const std::size_t wanted = std::min(depth_, kThreadsMax);
  if (!threads_.empty()) return;
  try {
    threads_.reserve(wanted);
    for (std::size_t i = 0; i < wanted; ++i) {
      threads_.emplace_back([this] { work(); });
      (void)::pthread_setname_np(threads_.back().native_handle(),
                                 ("storage-io-" + std::to_string(i)).c_str());
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): nothing is lost
    // With fewer threads it is slower; without any flush() fails the requests.
  }
}

std::size_t ThreadDevice::reap(std::span<BlockCompletion> out) noexcept {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  while (count < out.size() && !done_.empty()) out[count++] = done_.pop();
  in_flight_ -= count;
  return count;
}

Result<void> ThreadDevice::grow(actors::FileId file, std::uint64_t bytes) {
  if (file != actors::FileId::kSwap) {
    return Error{ErrorCode::kBadArgument, 0, "grow", name(file) + ": only the swap file grows"};
  }
  return files_->swap().grow(bytes);
}

void ThreadDevice::work() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_there_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
    if (closing_) return;
    const Job job = jobs_.pop();
    if (throttle_.limits()) {
      work_there_.wait_until(lock, job.start, [this] { return closing_; });
      if (closing_) return;
    }
    lock.unlock();
    const std::int64_t result = transfer(job.request, job.transfer);
    lock.lock();
    done_.push({job.request.tag, result});
    owner_wanted_.notify_one();
  }
}

}  // namespace mzcache::io
