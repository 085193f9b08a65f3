#include "actors/buffer_pool.h"

#include <cassert>
#include <mutex>
#include <new>
#include <vector>

namespace mzcache::actors {

// Shared with the leases, so that a late one finds it alive.
class BufferPool::State {
 public:
  State(StagingMemory& memory, std::size_t buffer_bytes, std::size_t buffers_max)
      : memory_(memory), buffer_bytes_(buffer_bytes), buffers_max_(buffers_max) {
    idle_.reserve(buffers_max);  // give_back must not allocate
  }
  ~State() { trim(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::byte* take() noexcept {
    const std::lock_guard lock(mutex_);
    if (outstanding_ == buffers_max_) return nullptr;
    std::byte* buffer = nullptr;
    if (idle_.empty()) {
      buffer = memory_.take_staging(buffer_bytes_);
      if (buffer == nullptr) return nullptr;
    } else {
      buffer = idle_.back();
      idle_.pop_back();
    }
    ++outstanding_;
    return buffer;
  }
  void give_back(std::byte* buffer) noexcept {
    const std::lock_guard lock(mutex_);
    assert(outstanding_ != 0);
    --outstanding_;
    idle_.push_back(buffer);
  }
  void trim() noexcept {
    const std::lock_guard lock(mutex_);
    for (std::byte* buffer : idle_) memory_.give_staging(buffer, buffer_bytes_);
    idle_.clear();
  }
  [[nodiscard]] std::size_t outstanding() const noexcept {
    const std::lock_guard lock(mutex_);
    return outstanding_;
  }
  [[nodiscard]] std::size_t held() const noexcept {
    const std::lock_guard lock(mutex_);
    return outstanding_ + idle_.size();
  }
  [[nodiscard]] std::size_t buffer_bytes() const noexcept { return buffer_bytes_; }
  [[nodiscard]] std::size_t buffers_max() const noexcept { return buffers_max_; }

 private:
  StagingMemory& memory_;
  const std::size_t buffer_bytes_;
  const std::size_t buffers_max_;
  mutable std::mutex mutex_;
  std::vector<std::byte*> idle_;
  std::size_t outstanding_ = 0;
};

namespace {

// What a lease owns: the buffer, and the way back.
template <class State>
struct Leased {
  std::shared_ptr<State> state;
  std::span<std::byte> bytes;
  Leased(std::shared_ptr<State> pool, std::span<std::byte> buffer) noexcept
      : state(std::move(pool)), bytes(buffer) {}
  ~Leased() { state->give_back(bytes.data()); }
  Leased(const Leased&) = delete;
  Leased& operator=(const Leased&) = delete;
};

}  // namespace

BufferPool::BufferPool(StagingMemory& memory, std::size_t buffer_bytes, std::size_t buffers_max)
    : state_(
          std::make_shared<State>(memory, align_up(buffer_bytes, kBlockAlignment), buffers_max)) {}

BufferPool::~BufferPool() = default;

StagingLease BufferPool::try_acquire() noexcept {
  std::byte* const buffer = state_->take();
  if (buffer == nullptr) return nullptr;
  try {
    auto leased =
        std::make_shared<Leased<State>>(state_, std::span(buffer, state_->buffer_bytes()));
    std::span<std::byte>* const bytes = &leased->bytes;
    return {std::move(leased), bytes};
  } catch (const std::bad_alloc&) {
    state_->give_back(buffer);
    return nullptr;
  }
}

std::size_t BufferPool::outstanding() const noexcept { return state_->outstanding(); }
std::size_t BufferPool::buffers_max() const noexcept { return state_->buffers_max(); }
std::size_t BufferPool::buffer_bytes() const noexcept { return state_->buffer_bytes(); }
std::uint64_t BufferPool::held_bytes() const noexcept {
  return std::uint64_t{state_->held()} * state_->buffer_bytes();
}
void BufferPool::trim() noexcept { state_->trim(); }

}  // namespace mzcache::actors
