// The BlockDevice port on io_uring.
#pragma once

#include <liburing.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/ports.h"
#include "io/fixed_queue.h"
#include "io/storage.h"
#include "io/throttle.h"
#include "io/unique_fd.h"

namespace mzcache::io {

// A request goes submitted → issued → (buffered files only: written back → dropped from the page
// cache) → done → reaped, all of it in the ring; the owner's thread blocks in wait() alone.
//
// wake() writes to an eventfd that a read in this same ring waits for, so that one kernel wait
// covers completions and wake-ups. The read is armed again by every wait() that finds it completed.
//
// One thread owns the device, except for wake(). The ring runs its completions cooperatively in the
// owner (COOP_TASKRUN) but is not tied to that thread (SINGLE_ISSUER, DEFER_TASKRUN): a tied ring
// can only be waited on by its owner, and the destructor, which must wait for every transfer under
// way, runs on another thread after the owner has ended.
class UringDevice final : public actors::BlockDevice {
 public:
  // The error's native code says why there is no ring here (ENOSYS, EPERM, ENOMEM, …).
  [[nodiscard]] static Result<std::unique_ptr<UringDevice>> create(
      std::shared_ptr<StorageFiles> files, const StorageOptions& options);
  ~UringDevice() override;
  UringDevice(const UringDevice&) = delete;
  UringDevice& operator=(const UringDevice&) = delete;

  void wait() noexcept override;
  void wake() noexcept override;
  void set_notify(std::function<void()>) override {}
  [[nodiscard]] std::size_t depth() const noexcept override { return slots_.size(); }
  [[nodiscard]] std::uint64_t block_bytes() const noexcept override { return block_; }
  [[nodiscard]] Result<void> submit(const actors::BlockRequest& request) override;
  void flush() override;
  [[nodiscard]] std::size_t reap(std::span<actors::BlockCompletion> out) noexcept override;
  [[nodiscard]] Result<void> grow(actors::FileId file, std::uint64_t bytes) override;
  [[nodiscard]] std::string name(actors::FileId file) const override { return files_->name(file); }

 private:
  enum class Stage : std::uint8_t { kTransfer, kWriteBack, kDrop };
  // One per request between submit() and reap().
  struct Slot {
    actors::BlockRequest request;
    Transfer transfer;
    std::int64_t result = 0;
    std::uint32_t generation = 0;  // of the slot's use, part of user_data
    Stage stage = Stage::kTransfer;
    Throttle::Time start;  // not before
  };

  UringDevice(std::shared_ptr<StorageFiles> files, const StorageOptions& options);
  [[nodiscard]] int set_up(const StorageOptions& options) noexcept;

  // Moves submitted requests into the ring as far as the throttle allows.
  void issue_submitted() noexcept;
  void issue(std::uint32_t index) noexcept;
  void arm_wake() noexcept;
  void arm_timer(Throttle::Time until) noexcept;
  // Takes in what completed, without blocking.
  void collect() noexcept;
  void complete(const io_uring_cqe& cqe) noexcept;
  // The step after a finished one; false where the request is done.
  bool advance(Slot& slot, int result) noexcept;
  void enter(unsigned wait_for) noexcept;
  io_uring_sqe* next_entry() noexcept;

  const std::shared_ptr<StorageFiles> files_;
  const std::uint64_t block_;
  Throttle throttle_;
  io_uring ring_{};
  bool ring_open_ = false;
  UniqueFd event_;
  std::uint64_t event_count_ = 0;  // where the eventfd's read lands
  __kernel_timespec timer_until_{};

  std::vector<Slot> slots_;
  FixedQueue<std::uint32_t> free_;
  FixedQueue<std::uint32_t> submitted_;
  FixedQueue<std::uint32_t> done_;
  std::size_t issued_ = 0;  // requests in the ring
  bool wake_armed_ = false;
  bool timer_armed_ = false;
  bool woken_ = false;                  // the eventfd's read completed
  std::atomic<bool> signalled_{false};  // the eventfd was written and wait() has not returned since
};

}  // namespace mzcache::io
