// Counts operations under way, so that shutdown can refuse new ones and wait for the rest.
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <utility>

namespace mzcache::actors {

// Thread-safe. Once closed a gate stays closed. It outlives the threads that leave it.
class Gate {
 public:
  // False once closed: the operation must not begin. Each true is paired with one leave().
  [[nodiscard]] bool enter() noexcept {
    std::uint64_t state = state_.load(std::memory_order_relaxed);
    do {
      if ((state & kClosed) != 0) return false;
    } while (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel,
                                           std::memory_order_relaxed));
    return true;
  }
  // True where this was the last one of a closed gate: exactly one caller gets to see it.
  bool leave() noexcept {
    const std::uint64_t before = state_.fetch_sub(1, std::memory_order_acq_rel);
    assert((before & ~kClosed) != 0 && "left a gate more often than entered");
    if (before != (kClosed | 1)) return false;
    state_.notify_all();
    return true;
  }
  // True where the gate was open until now and nothing is inside.
  bool close() noexcept { return state_.fetch_or(kClosed, std::memory_order_acq_rel) == 0; }

  [[nodiscard]] bool closed() const noexcept {
    return (state_.load(std::memory_order_acquire) & kClosed) != 0;
  }
  [[nodiscard]] std::uint64_t inside() const noexcept {
    return state_.load(std::memory_order_acquire) & ~kClosed;
  }
  [[nodiscard]] bool closed_and_empty() const noexcept {
    return state_.load(std::memory_order_acquire) == kClosed;
  }
  // Closes and blocks until empty. Never from a handler.
  void close_and_wait() noexcept {
    close();
    for (;;) {
      const std::uint64_t state = state_.load(std::memory_order_acquire);
      if (state == kClosed) return;
      state_.wait(state, std::memory_order_acquire);
    }
  }

 private:
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;
  std::atomic<std::uint64_t> state_{0};
};

// One operation inside a gate, left when destroyed. Movable, empty where the gate was closed.
class GatePass {
 public:
  GatePass() = default;
  explicit GatePass(Gate& gate) noexcept : gate_(gate.enter() ? &gate : nullptr) {}
  GatePass(GatePass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
  GatePass& operator=(GatePass&& other) noexcept {
    std::swap(gate_, other.gate_);
    return *this;
  }
  ~GatePass() {
    if (gate_ != nullptr) gate_->leave();
  }
  explicit operator bool() const noexcept { return gate_ != nullptr; }

 private:
  Gate* gate_ = nullptr;
};

}  // namespace mzcache::actors
