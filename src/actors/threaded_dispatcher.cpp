#include "actors/threaded_dispatcher.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "actors/prompt_thread.h"

namespace mzcache::actors {
namespace {

constexpr std::size_t kThreadNameMax = 15;  // the kernel's limit without the terminating zero

// An affinity mask for any core id the machine may have.
class CpuMask {
 public:
  explicit CpuMask(std::uint32_t cores)
      : bytes_(CPU_ALLOC_SIZE(cores)), mask_(CPU_ALLOC(cores)), cores_(cores) {
    if (mask_ != nullptr) CPU_ZERO_S(bytes_, mask_);
  }
  ~CpuMask() {
    if (mask_ != nullptr) CPU_FREE(mask_);
  }
  CpuMask(const CpuMask&) = delete;
  CpuMask& operator=(const CpuMask&) = delete;

  void add(std::uint32_t core) noexcept { CPU_SET_S(core, bytes_, mask_); }
  [[nodiscard]] bool has(std::uint32_t core) const noexcept {
    return core < cores_ && CPU_ISSET_S(core, bytes_, mask_);
  }
  [[nodiscard]] cpu_set_t* get() const noexcept { return mask_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
  cpu_set_t* mask_;
  std::uint32_t cores_;
};

constexpr std::uint32_t kCoresMax = 8192;

// Looks into an empty inbox before its receiver sleeps: about two microseconds, less than the
// wake-up that a message arriving in them would cost its sender.
constexpr int kLooks = 100;

void pause_briefly() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

// Where the device computes on the same cores, an operation of it ends when its slowest thread
// does: one that lost its core to a decoder holds up the others, which idle. So the device goes
// first; while it waits, nobody contends.
constexpr int kDecoderNice = 10;
constexpr int kAllocatorNice = 5;

}  // namespace

std::int32_t current_cpu() noexcept { return sched_getcpu(); }

// What an actor that a device waits for is late by, the device idles; codecs, and allocators, which
// zero pages, are work like its own.
void take_place(ActorKind kind, DeviceCores cores) noexcept {
  const bool shared = cores == DeviceCores::kShared;
  switch (kind) {
    case ActorKind::kCompressor:
      return;
    case ActorKind::kDecompressor:
      return shared ? run_behind(kDecoderNice) : void();
    case ActorKind::kAllocator:
      return shared ? run_behind(kAllocatorNice) : void();
    default:
      static_cast<void>(run_promptly(kind == ActorKind::kStorageReader));
  }
}

Result<CpuTopology> this_topology() {
  CpuMask allowed(kCoresMax);
  if (allowed.get() == nullptr) return Error{ErrorCode::kNoMemory, 0, "read CPU affinity", ""};
  if (sched_getaffinity(0, allowed.bytes(), allowed.get()) != 0) {
    return Error{ErrorCode::kIo, errno, "read CPU affinity", ""};
  }
  CpuTopology topology;
  if (auto described = read_topology("")) {
    topology = std::move(described).value();
    std::erase_if(topology.cores, [&](const Core& core) { return !allowed.has(core.id); });
  }
  // No description (a bare chroot), or none of the allowed cores in it: the mask is all we know.
  if (topology.cores.empty()) {
    for (std::uint32_t id = 0; id < kCoresMax; ++id) {
      if (allowed.has(id)) topology.cores.push_back({id, CoreClass::kAny, 0});
    }
  }
  return topology;
}

void ThreadedCell::run(ThreadedDispatcher& dispatcher) noexcept {
  while (!finish_.load(std::memory_order_acquire)) {
    if (drain() != 0) {
      if (source_ != nullptr) on_device();
      continue;
    }
    if (more_comes()) continue;
    park(dispatcher);
    if (source_ != nullptr) on_device();
  }
}

// Whether a message comes at once. An actor with a device does not look: that one may be done.
bool ThreadedCell::more_comes() noexcept {
  if (source_ != nullptr) return false;
  for (int look = 0; look < kLooks; ++look) {
    if (!inbox_empty()) return true;
    pause_briefly();
  }
  return false;
}

void ThreadedCell::park(ThreadedDispatcher& dispatcher) noexcept {
  in_flight_.store(!idle(), std::memory_order_seq_cst);
  parker().announce();
  dispatcher.about_to_sleep();
  if (inbox_empty() && !finish_.load(std::memory_order_seq_cst)) {
    parker().sleep();
  } else {
    parker().retract();
  }
}

void ThreadedCell::finish() noexcept {
  finish_.store(true, std::memory_order_seq_cst);
  parker().signal();
}

ThreadedDispatcher::ThreadedDispatcher(Placement placement, CpuTopology topology,
                                       Timeline& timeline, DeviceCores device_cores)
    : placement_(std::move(placement)),
      topology_(std::move(topology)),
      timeline_(timeline),
      device_cores_(device_cores) {}

ThreadedDispatcher::~ThreadedDispatcher() {
  stop();
  while (!cells_.empty()) cells_.pop_back();
}

std::vector<std::uint32_t> ThreadedDispatcher::admit(const ActorSpec& spec) const {
  if (started_) {
    throw Exception({ErrorCode::kBadArgument, 0, "spawn " + spec.name, "already started"});
  }
  if (spec.name.empty() || spec.name.size() > kThreadNameMax) {
    throw Exception({ErrorCode::kBadArgument, 0, "spawn " + spec.name,
                     "an actor's name has 1 to 15 characters"});
  }
  return value_or_throw(resolve(placement_, spec.kind, topology_));
}

void ThreadedDispatcher::adopt(std::unique_ptr<ThreadedCell> cell) {
  cells_.push_back(std::move(cell));
}

void ThreadedDispatcher::start() {
  if (started_) return;
  started_ = true;
  try {
    for (auto& cell : cells_) launch(*cell);
  } catch (...) {
    join(Gate::kAbandoned);
    stopped_ = true;
    throw;
  }
  gate_.store(Gate::kOpen, std::memory_order_release);
  gate_.notify_all();
}

// The thread waits at the gate until every thread has its name and its cores, so that no handler
// ever runs on a core the configuration does not name.
void ThreadedDispatcher::launch(ThreadedCell& cell) {
  cell.source_ = cell.wait_source();
  cell.parker().wait_on(cell.source_);
  try {
    cell.thread_ = std::thread([this, &cell] {
      take_place(cell.spec().kind, device_cores_);
      gate_.wait(Gate::kClosed, std::memory_order_acquire);
      if (gate_.load(std::memory_order_acquire) == Gate::kOpen) cell.run(*this);
    });
  } catch (const std::system_error& error) {
    throw Exception(
        {ErrorCode::kNoMemory, error.code().value(), "start thread " + cell.spec().name, ""});
  }
  pthread_setname_np(cell.thread_.native_handle(), cell.spec().name.c_str());
  if (cell.cores_.empty()) return;
  CpuMask mask(*std::max_element(cell.cores_.begin(), cell.cores_.end()) + 1);
  if (mask.get() == nullptr) throw Exception({ErrorCode::kNoMemory, 0, "pin threads", ""});
  for (const std::uint32_t core : cell.cores_) mask.add(core);
  const int failed = pthread_setaffinity_np(cell.thread_.native_handle(), mask.bytes(), mask.get());
  if (failed != 0) {
    throw Exception({ErrorCode::kBadConfig, failed, "pin thread " + cell.spec().name,
                     "placement." + std::string(placement_key(cell.spec().kind))});
  }
}

void ThreadedDispatcher::join(Gate gate) noexcept {
  gate_.store(gate, std::memory_order_release);
  gate_.notify_all();
  for (auto& cell : cells_) cell->finish();
  for (auto& cell : cells_) {
    if (cell->thread_.joinable()) cell->thread_.join();
  }
}

void ThreadedDispatcher::stop() noexcept {
  if (!started_ || stopped_) return;
  stopped_ = true;
  draining_.store(true, std::memory_order_seq_cst);
  {
    std::unique_lock lock(drain_mutex_);
    drain_changed_.wait_until(lock, std::chrono::steady_clock::now() + kDrainLimit,
                              [this] { return quiet(); });
  }
  join(Gate::kOpen);
}

void ThreadedDispatcher::about_to_sleep() noexcept {
  if (!draining_.load(std::memory_order_seq_cst)) return;
  const std::lock_guard lock(drain_mutex_);
  drain_changed_.notify_one();
}

// Two looks at every cell. A cell that was asleep in both with the same count of turns did nothing
// between them, so at the moment between the two looks nothing ran at all; a message still under
// way at that moment would show in the second look, as its receiver awake or its inbox not empty.
bool ThreadedDispatcher::quiet() noexcept {
  const auto resting = [](ThreadedCell& cell) {
    return cell.parker().asleep() && cell.inbox_empty() &&
           !cell.in_flight_.load(std::memory_order_seq_cst);
  };
  for (const auto& cell : cells_) {
    cell->turns_seen_ = cell->parker().turns();
    if (!resting(*cell)) return false;
  }
  return std::all_of(cells_.begin(), cells_.end(), [&](const auto& cell) {
    return resting(*cell) && cell->parker().turns() == cell->turns_seen_;
  });
}

}  // namespace mzcache::actors
