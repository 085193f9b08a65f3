// Turns events of the device into completions, in the order the work was enqueued.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/ports.h"
#include "gpu/device.h"
#include "gpu/stop_flag.h"

namespace mzcache::gpu {

// Event callbacks come on threads of the driver, and those of two events may overtake each other; a
// completion waits here until its predecessors were delivered. Thread-safe.
class CompletionOrder : public std::enable_shared_from_this<CompletionOrder> {
 public:
  using Listener = std::function<void(const actors::ComputeCompletion&)>;

  explicit CompletionOrder(const StopFlag& stop) : stop_(stop) {}
  void set_listener(Listener listener);
  // Delivers the tickets once `last` is complete; `first` is the event the work began with. Takes a
  // reference of its own to both.
  [[nodiscard]] Result<void> expect(std::vector<std::uint64_t> tickets, const cl::Event& first,
                                    const cl::Event& last);
  // Delivers the tickets with an error, in their turn.
  void fail(std::vector<std::uint64_t> tickets, const Error& error);
  // Blocks until everything expected was delivered.
  void drain();

 private:
  struct Pending {
    std::uint64_t number = 0;
    cl::Event first;
    cl::Event last;
    bool done = false;
    std::vector<std::uint64_t> tickets;
    actors::ComputeCompletion completion;
  };
  struct CallbackData {
    std::shared_ptr<CompletionOrder> order;
    std::uint64_t number = 0;
  };

  static void CL_CALLBACK on_event(cl_event event, cl_int status, void* data);
  void complete(std::uint64_t number, cl_int status);
  void deliver_done();
  // When the device worked on it, on the steady clock.
  void read_times(Pending& pending);

  const StopFlag& stop_;
  std::mutex mutex_;
  std::condition_variable drained_;
  Listener listener_;
  std::deque<Pending> pending_;  // in the order of enqueueing
  std::uint64_t next_number_ = 0;
  // Steady clock minus the device's: the smallest difference seen between an event's end and its
  // callback, which only ever comes late. Let go slowly, because the clocks may drift.
  bool calibrated_ = false;
  std::int64_t clock_difference_ns_ = 0;
};

}  // namespace mzcache::gpu
