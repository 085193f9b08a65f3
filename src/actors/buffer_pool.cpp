#include "actors/buffer_pool.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace mzcache::actors {

// Shared with the leases, so that a late one finds it alive.
class BufferPool::State {
 public:
  State(StagingMemory& memory, std::size_t slab_bytes, std::size_t leases_max)
      : memory_(memory), slab_bytes_(slab_bytes), leases_max_(leases_max) {}
  ~State() { trim(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::span<std::byte> take(std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    if (outstanding_ == leases_max_) return {};
    std::span<std::byte> buffer;
    for (auto slab = slabs_.begin(); slab != slabs_.end() && buffer.empty(); ++slab) {
      buffer = cut(*slab, bytes);
    }
    if (buffer.empty() && add_slab(std::max(bytes, slab_bytes_)))
      buffer = cut(slabs_.back(), bytes);
    if (buffer.empty()) return {};
    ++outstanding_;
    keeps_ = true;
    return buffer;
  }
  void give_back(std::span<std::byte> buffer) noexcept {
    const std::lock_guard lock(mutex_);
    assert(outstanding_ != 0);
    --outstanding_;
    const auto slab = std::find_if(slabs_.begin(), slabs_.end(), [&](const Slab& s) {
      return std::less_equal<>{}(s.begin, buffer.data()) &&
             std::less<>{}(buffer.data(), s.begin + s.bytes);
    });
    assert(slab != slabs_.end());
    slab->free.push_back(buffer);
    if (--slab->leased == 0) {
      slab->used = 0;
      slab->free.clear();
    }
    if (!keeps_) free_unleased();
  }
  void trim() noexcept {
    const std::lock_guard lock(mutex_);
    keeps_ = false;
    free_unleased();
  }
  [[nodiscard]] std::size_t outstanding() const noexcept {
    const std::lock_guard lock(mutex_);
    return outstanding_;
  }
  [[nodiscard]] std::uint64_t held_bytes() const noexcept {
    const std::lock_guard lock(mutex_);
    std::uint64_t bytes = 0;
    for (const Slab& slab : slabs_) bytes += slab.bytes;
    return bytes;
  }

 private:
  struct Slab {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::size_t used = 0;
    std::size_t leased = 0;
    std::vector<std::span<std::byte>> free;  // buffers that came back
  };

  // One that came back, else a new one; empty where there is no room.
  static std::span<std::byte> cut(Slab& slab, std::size_t bytes) noexcept {
    std::span<std::byte> buffer;
    const auto fits = std::find_if(slab.free.begin(), slab.free.end(),
                                   [&](const auto& free) { return free.size() >= bytes; });
    if (fits != slab.free.end()) {
      buffer = *fits;
      slab.free.erase(fits);
    } else if (slab.bytes - slab.used >= bytes) {
      buffer = {slab.begin + slab.used, bytes};
      slab.used += bytes;
    } else {
      return {};
    }
    ++slab.leased;
    return buffer;
  }

  bool add_slab(std::size_t bytes) noexcept {
    std::vector<std::span<std::byte>> free;
    try {
      slabs_.reserve(slabs_.size() + 1);
      free.reserve(bytes / kBlockAlignment);  // give_back must not allocate
    } catch (const std::bad_alloc&) {
      return false;
    }
    std::byte* const begin = memory_.take_staging(bytes);
    if (begin == nullptr) return false;
    slabs_.push_back({begin, bytes, 0, 0, std::move(free)});
    return true;
  }
  void free_unleased() noexcept {
    std::erase_if(slabs_, [this](const Slab& slab) {
      if (slab.leased == 0) memory_.give_staging(slab.begin, slab.bytes);
      return slab.leased == 0;
    });
  }

  StagingMemory& memory_;
  const std::size_t slab_bytes_;
  const std::size_t leases_max_;
  mutable std::mutex mutex_;
  std::vector<Slab> slabs_;
  std::size_t outstanding_ = 0;
  bool keeps_ = true;  // what comes back; not after a trim
};

namespace {

// What a lease owns: the buffer, and the way back.
template <class State>
struct Leased {
  std::shared_ptr<State> state;
  std::span<std::byte> bytes;
  Leased(std::shared_ptr<State> pool, std::span<std::byte> buffer) noexcept
      : state(std::move(pool)), bytes(buffer) {}
  ~Leased() { state->give_back(bytes); }
  Leased(const Leased&) = delete;
  Leased& operator=(const Leased&) = delete;
};

}  // namespace

BufferPool::BufferPool(StagingMemory& memory, std::size_t slab_bytes, std::size_t leases_max)
    : state_(std::make_shared<State>(memory, slab_bytes, leases_max)) {}

BufferPool::~BufferPool() = default;

StagingLease BufferPool::try_acquire(std::size_t bytes) noexcept {
  const std::span<std::byte> buffer = state_->take(align_up(bytes, kBlockAlignment));
  if (buffer.empty()) return nullptr;
  try {
    auto leased = std::make_shared<Leased<State>>(state_, buffer);
    std::span<std::byte>* const span = &leased->bytes;
    return {std::move(leased), span};
  } catch (const std::bad_alloc&) {
    state_->give_back(buffer);
    return nullptr;
  }
}

std::size_t BufferPool::outstanding() const noexcept { return state_->outstanding(); }
std::uint64_t BufferPool::held_bytes() const noexcept { return state_->held_bytes(); }
void BufferPool::trim() noexcept { state_->trim(); }

}  // namespace mzcache::actors
