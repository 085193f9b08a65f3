#include "io/uring_device.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "io/io_error.h"
#include "io/page_cache.h"

namespace mzcache::io {
namespace {

using actors::BlockCompletion;
using actors::BlockRequest;

// user_data of what is not a request; a slot's is generation << 32 | index.
constexpr std::uint64_t kWakeData = ~std::uint64_t{0};
constexpr std::uint64_t kTimerData = ~std::uint64_t{1};

constexpr std::uint64_t slot_data(std::uint32_t index, std::uint32_t generation) {
  return std::uint64_t{generation} << 32 | index;
}

bool knows_operations(io_uring& ring) noexcept {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) return false;
  bool all = true;
  for (const int operation : {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_TIMEOUT,
                              IORING_OP_SYNC_FILE_RANGE, IORING_OP_FADVISE}) {
    all = all && io_uring_opcode_supported(probe, operation) != 0;
  }
  io_uring_free_probe(probe);
  return all;
}

// One round trip: filters that allow setting up a ring may forbid entering it.
int try_ring(io_uring& ring) noexcept {
  io_uring_sqe* entry = io_uring_get_sqe(&ring);
  if (entry == nullptr) return -ENOMEM;
  io_uring_prep_nop(entry);
  const int submitted = io_uring_submit(&ring);
  if (submitted < 0) return submitted;
  io_uring_cqe* completion = nullptr;
  int failed = 0;
  do {
    failed = io_uring_wait_cqe(&ring, &completion);
  } while (failed == -EINTR);
  if (failed < 0) return failed;
  io_uring_cqe_seen(&ring, completion);
  return 0;
}

}  // namespace

UringDevice::UringDevice(std::shared_ptr<StorageFiles> files, const StorageOptions& options)
    : files_(std::move(files)),
      block_(options.block),
      throttle_(options.limit_bytes_per_s),
      slots_(options.depth),
      free_(options.depth),
      submitted_(options.depth),
      done_(options.depth) {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) free_.push(i);
}

Result<std::unique_ptr<UringDevice>> UringDevice::create(std::shared_ptr<StorageFiles> files,
                                                         const StorageOptions& options) {
  std::unique_ptr<UringDevice> device(new UringDevice(std::move(files), options));
  const int failed = device->set_up(options);
  if (failed != 0) return io_error(-failed, "set up io_uring", "");
  return device;
}

int UringDevice::set_up(const StorageOptions& options) noexcept {
  if (options.faults.ring_error != 0) return -options.faults.ring_error;
  event_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));  // blocking: a read in the ring waits, not EAGAIN
  if (!event_.valid()) return -errno;
  // An entry per request, one for the wake-up, one for the timer.
  const auto entries = static_cast<unsigned>(slots_.size() + 2);
  int failed = -EINVAL;
  // Kernels before 5.19 know neither flag. TASKRUN_FLAG lets a peek see that there is work to run.
  for (const unsigned flags : {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0U}) {
    io_uring_params params{};
    params.flags = flags;
    failed = io_uring_queue_init_params(entries, &ring_, &params);
    if (failed != -EINVAL) break;
  }
  if (failed != 0) return failed;
  ring_open_ = true;
  (void)io_uring_ring_dontfork(&ring_);
  if (!knows_operations(ring_)) return -ENOSYS;
  return try_ring(ring_);
}

UringDevice::~UringDevice() {
  if (!ring_open_) return;
  submitted_.clear();
  wake();  // ends the eventfd's read, whose buffer is this object
  for (;;) {
    collect();
    if (issued_ == 0 && !wake_armed_) break;
    enter(1);
  }
  io_uring_queue_exit(&ring_);
}

void UringDevice::wake() noexcept {
  if (signalled_.exchange(true, std::memory_order_acq_rel)) return;
  const std::uint64_t one = 1;
  while (::write(event_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void UringDevice::wait() noexcept {
  for (;;) {
    collect();
    if (woken_) {
      woken_ = false;
      // Not a plain store: what was published before any wake() up to here must be visible to the
      // caller, also of those that found the flag set and wrote nothing.
      signalled_.exchange(false, std::memory_order_acq_rel);
      return;
    }
    if (!done_.empty()) return;
    issue_submitted();
    arm_wake();
    enter(1);
  }
}

Result<void> UringDevice::submit(const BlockRequest& request) {
  auto transfer = prepare_transfer(*files_, request);
  if (!transfer) return std::move(transfer).error();
  if (free_.empty()) {
    return Error{ErrorCode::kInternal, 0, "submit", "more requests than storage.depth in flight"};
  }
  const std::uint32_t index = free_.pop();
  Slot& slot = slots_[index];
  slot.request = request;
  slot.transfer = *transfer;
  slot.stage = Stage::kTransfer;
  slot.result = 0;
  const auto now = std::chrono::steady_clock::now();
  slot.start = request.operation == BlockRequest::Operation::kRead
                   ? throttle_.pay(transfer->bytes, now)
                   : now;
  submitted_.push(index);
  return {};
}

void UringDevice::flush() {
  issue_submitted();
  enter(0);
}

std::size_t UringDevice::reap(std::span<BlockCompletion> out) noexcept {
  collect();
  std::size_t count = 0;
  while (count < out.size() && !done_.empty()) {
    const std::uint32_t index = done_.pop();
    const Slot& slot = slots_[index];
    out[count++] = {slot.request.tag, slot.result};
    free_.push(index);
  }
  return count;
}

Result<void> UringDevice::grow(actors::FileId file, std::uint64_t bytes) {
  if (file != actors::FileId::kSwap) {
    return Error{ErrorCode::kBadArgument, 0, "grow", name(file) + ": only the swap file grows"};
  }
  return files_->swap().grow(bytes);
}

void UringDevice::issue_submitted() noexcept {
  while (!submitted_.empty()) {
    const std::uint32_t index = submitted_.front();
    if (throttle_.limits() && slots_[index].start > std::chrono::steady_clock::now()) {
      arm_timer(slots_[index].start);
      return;
    }
    ++issued_;
    ++slots_[index].generation;
    (void)submitted_.pop();
    issue(index);
  }
}

void UringDevice::issue(std::uint32_t index) noexcept {
  const Slot& slot = slots_[index];
  io_uring_sqe* entry = next_entry();
  const int fd = slot.transfer.file.fd;
  const std::uint64_t offset = slot.request.offset;
  const auto bytes = static_cast<unsigned>(slot.transfer.bytes);
  constexpr unsigned kAll =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  switch (slot.stage) {
    case Stage::kTransfer:
      if (slot.request.operation == BlockRequest::Operation::kWrite) {
        io_uring_prep_write(entry, fd, slot.request.buffer.data(), bytes, offset);
      } else {
        io_uring_prep_read(entry, fd, slot.request.buffer.data(), bytes, offset);
      }
      break;
    case Stage::kWriteBack:
      io_uring_prep_sync_file_range(entry, fd, bytes, offset, static_cast<int>(kAll));
      break;
    case Stage::kDrop: {
      // The kernel keeps pages that the range covers in part.
      const std::uint64_t begin = offset / actors::kBlockAlignment * actors::kBlockAlignment;
      const std::uint64_t end = actors::align_up(offset + bytes, actors::kBlockAlignment);
      io_uring_prep_fadvise(entry, fd, begin, static_cast<off_t>(end - begin), POSIX_FADV_DONTNEED);
      break;
    }
  }
  io_uring_sqe_set_data64(entry, slot_data(index, slot.generation));
}

void UringDevice::arm_wake() noexcept {
  if (wake_armed_) return;
  io_uring_sqe* entry = next_entry();
  io_uring_prep_read(entry, event_.get(), &event_count_, sizeof event_count_, 0);
  io_uring_sqe_set_data64(entry, kWakeData);
  wake_armed_ = true;
}

void UringDevice::arm_timer(Throttle::Time until) noexcept {
  if (timer_armed_) return;
  using std::chrono::nanoseconds;
  const auto since_boot = std::chrono::duration_cast<nanoseconds>(until.time_since_epoch()).count();
  timer_until_ = {since_boot / 1'000'000'000, since_boot % 1'000'000'000};
  io_uring_sqe* entry = next_entry();
  io_uring_prep_timeout(entry, &timer_until_, 0, IORING_TIMEOUT_ABS);
  io_uring_sqe_set_data64(entry, kTimerData);
  timer_armed_ = true;
}

void UringDevice::collect() noexcept {
  std::array<io_uring_cqe*, 32> completions{};
  for (;;) {
    const unsigned count = io_uring_peek_batch_cqe(&ring_, completions.data(),
                                                   static_cast<unsigned>(completions.size()));
    for (unsigned i = 0; i < count; ++i) complete(*completions[i]);
    io_uring_cq_advance(&ring_, count);
    if (count < completions.size()) break;
  }
  // Follow-up steps of what completed.
  if (io_uring_sq_ready(&ring_) > 0) enter(0);
}

void UringDevice::complete(const io_uring_cqe& cqe) noexcept {
  if (cqe.user_data == kWakeData) {
    wake_armed_ = false;
    // A failed read (EINTR) is only armed again.
    if (cqe.res == static_cast<int>(sizeof event_count_)) woken_ = true;
    return;
  }
  if (cqe.user_data == kTimerData) {
    timer_armed_ = false;
    issue_submitted();
    return;
  }
  const auto index = static_cast<std::uint32_t>(cqe.user_data);
  if (index >= slots_.size()) return;
  Slot& slot = slots_[index];
  if (cqe.user_data != slot_data(index, slot.generation)) return;
  if (advance(slot, cqe.res)) {
    issue(index);
    return;
  }
  --issued_;
  done_.push(index);
}

bool UringDevice::advance(Slot& slot, int result) noexcept {
  if (slot.stage == Stage::kTransfer) {
    slot.result = result;
    if (slot.transfer.file.direct || result <= 0) return false;
    slot.transfer.bytes = static_cast<std::uint64_t>(result);
    const bool write = slot.request.operation == BlockRequest::Operation::kWrite;
    slot.stage = write ? Stage::kWriteBack : Stage::kDrop;
    return true;
  }
  if (slot.stage == Stage::kWriteBack) {
    if (is_write_failure(result)) slot.result = result;
    slot.stage = Stage::kDrop;
    return true;
  }
  return false;
}

void UringDevice::enter(unsigned wait_for) noexcept {
  const int result =
      wait_for == 0 ? io_uring_submit(&ring_) : io_uring_submit_and_wait(&ring_, wait_for);
  if (result >= 0 || result == -EINTR || wait_for == 0) return;
  // The kernel lacks memory for a moment (EAGAIN, EBUSY, ENOMEM); what was not taken stays queued
  // in the ring and goes with the next call.
  std::this_thread::sleep_for(std::chrono::microseconds(200));
}

io_uring_sqe* UringDevice::next_entry() noexcept {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  // There is an entry for everything that can be under way at once, once those before are taken.
  while (entry == nullptr) {
    enter(0);
    entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return entry;
}

}  // namespace mzcache::io
