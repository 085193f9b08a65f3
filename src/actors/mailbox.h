// A threaded actor's inbox: a lock-free queue with one wake-up primitive.
//
// Many senders, one receiver. Messages of one sending thread are received in the order sent; those
// of several in any, even where one was sent after the other. A sender makes a system call only
// when the receiver announced that it sleeps.
#pragma once

#include <concurrentqueue.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "actors/ports.h"

namespace mzcache::actors {

// Where the receiver sleeps: on its device where it has one, else on the state word itself.
//
//   receiver: announce → anything to do? → yes: retract
//                                        → no:  sleep until signalled (or the device completes)
//   sender:   publish → announced? → retract the announcement in its place and wake it
//
// Both sides put a full fence between their write and their read, so at least one of them sees the
// other: a message is never left behind with its receiver asleep.
class Parker {
 public:
  // Receiver, before it starts. Null: sleeps on the state word.
  void wait_on(WaitSource* source) noexcept { source_ = source; }

  // Sender, after publishing.
  void signal() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (state_.load(std::memory_order_relaxed) == kAsleep) wake();
  }

  // Receiver.
  void announce() noexcept {
    state_.store(kAsleep, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void retract() noexcept {
    // Turns first: an observer that sees "asleep" with an unchanged count knows nothing ran.
    turns_.fetch_add(1, std::memory_order_seq_cst);
    state_.store(kAwake, std::memory_order_seq_cst);
  }
  void sleep() noexcept {
    if (source_ != nullptr) {
      source_->wait();
    } else {
      state_.wait(kAsleep, std::memory_order_acquire);
    }
    retract();
  }

  // Anyone: whether the receiver sleeps, and how often it has woken.
  [[nodiscard]] bool asleep() const noexcept {
    return state_.load(std::memory_order_seq_cst) == kAsleep;
  }
  [[nodiscard]] std::uint64_t turns() const noexcept {
    return turns_.load(std::memory_order_seq_cst);
  }

 private:
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = 1;

  void wake() noexcept {
    if (state_.exchange(kAwake, std::memory_order_seq_cst) != kAsleep) return;
    if (source_ != nullptr) {
      source_->wake();
    } else {
      state_.notify_one();
    }
  }

  alignas(64) std::atomic<std::uint32_t> state_{kAwake};
  WaitSource* source_ = nullptr;
  alignas(64) std::atomic<std::uint64_t> turns_{0};
};

template <class Inbox>
class Mailbox {
 public:
  // Any thread.
  void post(Inbox&& message) noexcept {
    // A message is never dropped: where memory for its block is missing the sender waits for it.
    // NOLINTNEXTLINE(bugprone-use-after-move): enqueue() takes the message only if it succeeds
    while (!queue_.enqueue(std::move(message))) std::this_thread::yield();
    parker_.signal();
  }

  // Receiver: hands up to kBatch messages to `handle(Inbox&)`, each destroyed right after (what it
  // still owns, such as a buffer lease, must not outlive its handling). Returns how many.
  template <class Handle>
  std::size_t drain(Handle&& handle) noexcept {
    const std::size_t count = queue_.try_dequeue_bulk(Slots{batch_}, kBatch);
    for (std::size_t i = 0; i < count; ++i) {
      Inbox* message = std::launder(reinterpret_cast<Inbox*>(batch_[i].bytes));
      handle(*message);
      std::destroy_at(message);
    }
    return count;
  }

  // Exact for the receiver; for others true only says that it was so a moment ago.
  [[nodiscard]] bool empty() const noexcept { return queue_.size_approx() == 0; }
  [[nodiscard]] Parker& parker() noexcept { return parker_; }

 private:
  static constexpr std::size_t kBatch = 64;

  struct Traits : moodycamel::ConcurrentQueueDefaultTraits {
    // NOLINTNEXTLINE(readability-identifier-naming): the queue's own name for it
    static constexpr std::size_t BLOCK_SIZE = 64;
  };
  struct Slot {
    alignas(Inbox) std::byte bytes[sizeof(Inbox)];
  };
  // Output iterator that constructs messages in raw slots.
  class Slots {
   public:
    explicit Slots(Slot* slot) noexcept : slot_(slot) {}
    Slots& operator*() noexcept { return *this; }
    Slots& operator++() noexcept {
      ++slot_;
      return *this;
    }
    Slots operator++(int) noexcept { return Slots(slot_++); }
    Slots& operator=(Inbox&& message) noexcept {
      ::new (static_cast<void*>(slot_->bytes)) Inbox(std::move(message));
      return *this;
    }

   private:
    Slot* slot_;
  };

  moodycamel::ConcurrentQueue<Inbox, Traits> queue_;
  Parker parker_;
  Slot batch_[kBatch];
};

}  // namespace mzcache::actors
