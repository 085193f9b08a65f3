#include "gpu/completion_order.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace mzcache::gpu {
namespace {

constexpr std::int64_t kDriftDivisor = 1024;

std::int64_t steady_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A query, which callbacks may make: nothing is enqueued or waited for.
std::int64_t profiled_ns(const cl::Event& event, cl_profiling_info what) noexcept {
  cl_ulong value = 0;
  if (clGetEventProfilingInfo(event(), what, sizeof value, &value, nullptr) != CL_SUCCESS) return 0;
  return static_cast<std::int64_t>(value);
}

}  // namespace

void CompletionOrder::set_listener(Listener listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

Result<void> CompletionOrder::expect(std::vector<std::uint64_t> tickets, const cl::Event& first,
                                     const cl::Event& last) {
  auto data = std::make_unique<CallbackData>();
  {
    const std::lock_guard lock(mutex_);
    data->order = shared_from_this();
    data->number = next_number_++;
    Pending& pending = pending_.emplace_back();
    pending.number = data->number;
    pending.first = first;
    pending.last = last;
    pending.tickets = std::move(tickets);
  }
  // Outside the lock: the callback may come at once, on this thread.
  const std::uint64_t number = data->number;
  const cl_int status = clSetEventCallback(last(), CL_COMPLETE, &on_event, data.get());
  if (status == CL_SUCCESS) {
    (void)data.release();
    return {};
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(pending_, [number](const Pending& p) { return p.number == number; });
  return Error{ErrorCode::kDevice, status, "set event callback", ""};
}

void CompletionOrder::drain() {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [this] { return pending_.empty(); });
}

void CL_CALLBACK CompletionOrder::on_event(cl_event, cl_int status, void* data) {
  const std::unique_ptr<CallbackData> callback(static_cast<CallbackData*>(data));
  callback->order->complete(callback->number, status);
}

void CompletionOrder::complete(std::uint64_t number, cl_int status) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(pending_.begin(), pending_.end(),
                                  [number](const Pending& p) { return p.number == number; });
  if (found == pending_.end()) return;
  found->done = true;
  if (status < 0) found->completion.error = {ErrorCode::kDevice, status, "compute", ""};
  // Set before any work of this slice was skipped, and cleared only after all of it was reported.
  found->completion.stopped = stop_.is_set();
  read_times(*found);
  deliver_done();
}

void CompletionOrder::fail(std::vector<std::uint64_t> tickets, const Error& error) {
  const std::lock_guard lock(mutex_);
  Pending& pending = pending_.emplace_back();
  pending.number = next_number_++;
  pending.tickets = std::move(tickets);
  pending.done = true;
  pending.completion.error = error;
  deliver_done();
}

// Under the lock, so that order holds; the listener only posts to a mailbox.
void CompletionOrder::deliver_done() {
  while (!pending_.empty() && pending_.front().done) {
    for (const std::uint64_t ticket : pending_.front().tickets) {
      pending_.front().completion.ticket = ticket;
      if (listener_) listener_(pending_.front().completion);
    }
    pending_.pop_front();
  }
  if (pending_.empty()) drained_.notify_all();
}

void CompletionOrder::read_times(Pending& pending) {
  const std::int64_t now = steady_ns();
  const std::int64_t begin = profiled_ns(pending.first, CL_PROFILING_COMMAND_START);
  const std::int64_t end = profiled_ns(pending.last, CL_PROFILING_COMMAND_END);
  if (begin == 0 || end == 0) {
    pending.completion.begin = pending.completion.end = actors::Nanoseconds(now);
    return;
  }
  const std::int64_t difference = now - end;
  if (!calibrated_ || difference < clock_difference_ns_) {
    clock_difference_ns_ = difference;
    calibrated_ = true;
  } else {
    clock_difference_ns_ += (difference - clock_difference_ns_) / kDriftDivisor;
  }
  pending.completion.begin = actors::Nanoseconds(begin + clock_difference_ns_);
  pending.completion.end = actors::Nanoseconds(end + clock_difference_ns_);
}

}  // namespace mzcache::gpu
