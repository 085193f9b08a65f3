#include "actors/timeline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>

namespace mzcache::actors {
namespace {

constexpr std::size_t kBlockSpans = 4096;
constexpr std::size_t kBlocksMax = 256;  // per thread: a million spans

// The spans of one thread. Written by it alone; read by anyone up to `count`.
class SpanBuffer {
 public:
  ~SpanBuffer() {
    for (auto& block : blocks_) delete block.load(std::memory_order_relaxed);
  }
  // False where the buffer is full or memory is short.
  bool append(const SpanRecord& span) noexcept {
    const std::size_t count = count_.load(std::memory_order_relaxed);
    const std::size_t index = count / kBlockSpans;
    if (index == kBlocksMax) return false;
    Block* block = blocks_[index].load(std::memory_order_relaxed);
    if (block == nullptr) {
      block = new (std::nothrow) Block;
      if (block == nullptr) return false;
      blocks_[index].store(block, std::memory_order_relaxed);  // published with count_
    }
    (*block)[count % kBlockSpans] = span;
    count_.store(count + 1, std::memory_order_release);
    return true;
  }
  void copy_to(std::vector<SpanRecord>& out) const {
    const std::size_t count = count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back((*blocks_[i / kBlockSpans].load(std::memory_order_relaxed))[i % kBlockSpans]);
    }
  }

 private:
  using Block = std::array<SpanRecord, kBlockSpans>;
  std::array<std::atomic<Block*>, kBlocksMax> blocks_{};
  std::atomic<std::size_t> count_{0};
};

// A thread's buffers, one per timeline epoch it recorded in. An epoch ends with clear() or with the
// timeline itself; its number is never used again.
struct ThreadBuffers {
  struct Entry {
    std::uint64_t epoch = 0;
    std::shared_ptr<SpanBuffer> buffer;
  };
  std::vector<Entry> entries;

  [[nodiscard]] SpanBuffer* find(std::uint64_t epoch) const noexcept {
    for (const Entry& entry : entries) {
      if (entry.epoch == epoch) return entry.buffer.get();
    }
    return nullptr;
  }
  void forget_ended() {
    std::erase_if(entries, [](const Entry& entry) { return entry.buffer.use_count() == 1; });
  }
};

std::uint64_t next_epoch() noexcept {
  static std::atomic<std::uint64_t> epoch{0};
  return epoch.fetch_add(1, std::memory_order_relaxed) + 1;
}

ThreadBuffers& thread_buffers() noexcept {
  thread_local ThreadBuffers buffers;
  return buffers;
}

}  // namespace

std::string_view stage_name(Stage stage) noexcept {
  switch (stage) {
    case Stage::kHandler:
      return "handler";
    case Stage::kAllocate:
      return "allocate";
    case Stage::kRead:
      return "read";
    case Stage::kWrite:
      return "write";
    case Stage::kDecode:
      return "decode";
    case Stage::kEncode:
      return "encode";
    case Stage::kRelease:
      return "release";
    case Stage::kCompute:
      return "compute";
    case Stage::kWait:
      return "wait";
    case Stage::kCount:
      break;
  }
  return "unknown";
}

struct Timeline::Impl {
  std::atomic<bool> enabled{false};
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint64_t> epoch{next_epoch()};
  mutable std::mutex mutex;  // of what follows
  std::vector<std::string> tracks;
  std::vector<std::shared_ptr<SpanBuffer>> buffers;

  // Once per thread and epoch. Null where memory is short.
  SpanBuffer* join() noexcept try {
    ThreadBuffers& mine = thread_buffers();
    mine.forget_ended();
    auto buffer = std::make_shared<SpanBuffer>();
    const std::lock_guard lock(mutex);
    mine.entries.push_back({epoch.load(std::memory_order_relaxed), buffer});
    buffers.push_back(buffer);
    return buffer.get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
};

Timeline::Timeline() : impl_(std::make_unique<Impl>()) {}
Timeline::~Timeline() = default;

void Timeline::enable(bool on) noexcept { impl_->enabled.store(on, std::memory_order_relaxed); }

bool Timeline::enabled() const noexcept { return impl_->enabled.load(std::memory_order_relaxed); }

std::uint32_t Timeline::add_track(std::string name) {
  const std::lock_guard lock(impl_->mutex);
  impl_->tracks.push_back(std::move(name));
  return static_cast<std::uint32_t>(impl_->tracks.size() - 1);
}

void Timeline::record(const SpanRecord& span) noexcept {
  if (!enabled()) return;
  SpanBuffer* buffer = thread_buffers().find(impl_->epoch.load(std::memory_order_acquire));
  if (buffer == nullptr) buffer = impl_->join();
  if (buffer == nullptr || !buffer->append(span)) {
    impl_->dropped.fetch_add(1, std::memory_order_relaxed);
  }
}

std::vector<SpanRecord> Timeline::snapshot() const {
  std::vector<std::shared_ptr<SpanBuffer>> buffers;
  {
    const std::lock_guard lock(impl_->mutex);
    buffers = impl_->buffers;
  }
  std::vector<SpanRecord> spans;
  for (const auto& buffer : buffers) buffer->copy_to(spans);
  // Of spans that begin together the longest comes first: it encloses the others.
  std::stable_sort(spans.begin(), spans.end(), [](const SpanRecord& a, const SpanRecord& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  return spans;
}

std::vector<std::string> Timeline::tracks() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->tracks;
}

std::uint64_t Timeline::dropped() const noexcept {
  return impl_->dropped.load(std::memory_order_relaxed);
}

void Timeline::clear() {
  const std::lock_guard lock(impl_->mutex);
  impl_->epoch.store(next_epoch(), std::memory_order_release);
  impl_->buffers.clear();
  impl_->dropped.store(0, std::memory_order_relaxed);
}

}  // namespace mzcache::actors
