// Units in our own mappings: devices that are the host's processor take plain pointers.
//
// One reservation holds the weights of all layers and the head, each unit starting on a huge page:
// a layer is populated alone, so packing them closer would only turn more of their edges into small
// pages. Each (context, layer) has a reservation with its chunks side by side, because two chunks
// often share a huge page.
#include <atomic>

#include "gpu/unit_memory_parts.h"

namespace mzcache::gpu {
namespace {

using actors::UnitId;
using actors::UnitKind;

struct Range {
  std::byte* begin = nullptr;
  std::uint64_t bytes = 0;
  std::atomic<bool>* populated = nullptr;
};

// A context's chunks. Immutable but for the flags, each of which belongs to a unit.
struct MappedContext {
  std::uint32_t chunks = 0;
  std::vector<PageReservation> layers;
  std::unique_ptr<std::atomic<bool>[]> populated;  // [layer][chunk]
};

class MappedMemory final : public UnitMemoryBase {
 public:
  using UnitMemoryBase::UnitMemoryBase;

  Result<void> reserve() {
    std::uint64_t total = 0;
    for (std::uint32_t unit = 0; unit <= layers(); ++unit) {
      weight_offsets_.push_back(total);
      total += actors::align_up(weight_bytes(unit), kHugePageBytes);
    }
    auto reservation = PageReservation::create(total);
    if (!reservation) return reservation.error();
    weights_ = std::move(*reservation);
    weights_populated_ = std::make_unique<std::atomic<bool>[]>(layers() + 1);
    return {};
  }

  Result<void> open_context(std::uint32_t context, std::uint32_t chunks) override {
    if (chunks == 0) return Error{ErrorCode::kBadArgument, 0, "open context", "no chunks"};
    auto opened = std::make_unique<MappedContext>();
    opened->chunks = chunks;
    opened->populated = std::make_unique<std::atomic<bool>[]>(std::size_t{layers()} * chunks);
    for (std::uint32_t layer = 0; layer < layers(); ++layer) {
      auto reservation = PageReservation::create(sizes_.chunk_bytes * chunks);
      if (!reservation) return reservation.error();
      opened->layers.push_back(std::move(*reservation));
    }
    const std::unique_lock lock(mutex_);
    if (!contexts_.emplace(context, std::move(opened)).second) {
      return Error{ErrorCode::kBadArgument, 0, "open context",
                   "context " + std::to_string(context) + " is open already"};
    }
    return {};
  }

  void close_context(std::uint32_t context) noexcept override {
    std::unique_ptr<MappedContext> closed;  // unmapped outside the lock
    const std::unique_lock lock(mutex_);
    const auto found = contexts_.find(context);
    if (found == contexts_.end()) return;
    closed = std::move(found->second);
    contexts_.erase(found);
  }

  Result<void> populate(std::span<const UnitId> run) override {
    if (run.empty()) return {};
    if (!is_run(run)) {
      return Error{ErrorCode::kInternal, 0, "populate", "not a run: from " + unit_name(run[0])};
    }
    std::uint64_t bytes = 0;
    for (const UnitId unit : run) {
      const Range range = range_of(unit);
      if (range.begin == nullptr || range.populated->load(std::memory_order_acquire)) {
        return Error{ErrorCode::kInternal, 0, "populate",
                     unit_name(unit) +
                         (range.begin == nullptr ? " does not exist" : " is populated already")};
      }
      bytes += range.bytes;
    }
    auto populated = populate_pages(range_of(run[0]).begin, bytes, huge_pages_, fault_);
    if (!populated) return populated;
    for (const UnitId unit : run) range_of(unit).populated->store(true, std::memory_order_release);
    return {};
  }

  void release(std::span<const UnitId> units) noexcept override {
    // Neighbours, in either direction, leave in one call to the kernel.
    std::byte* begin = nullptr;
    std::uint64_t bytes = 0;
    for (const UnitId unit : units) {
      const Range range = range_of(unit);
      if (range.begin == nullptr || !range.populated->exchange(false)) continue;
      if (bytes != 0 && range.begin == begin + bytes) {
        bytes += range.bytes;
      } else if (bytes != 0 && range.begin + range.bytes == begin) {
        begin = range.begin;
        bytes += range.bytes;
      } else {
        release_pages(begin, bytes);
        begin = range.begin;
        bytes = range.bytes;
      }
    }
    release_pages(begin, bytes);
  }

  std::span<std::byte> bytes(UnitId unit) noexcept override {
    const Range range = range_of(unit);
    return {range.begin, range.bytes};
  }

  KernelAddress address(UnitId unit) const noexcept override {
    return {range_of(unit).begin, nullptr, 0};
  }

  std::vector<const void*> reachable_pointers() const override { return {}; }

 private:
  [[nodiscard]] std::uint64_t weight_bytes(std::uint32_t unit) const {
    return unit < layers() ? sizes_.weights_bytes[unit] : sizes_.head_bytes;
  }

  // A unit that does not exist has no begin.
  [[nodiscard]] Range range_of(UnitId unit) const noexcept {
    if (unit.kind != UnitKind::kKv) {
      const std::uint32_t index = unit.kind == UnitKind::kHead ? layers() : unit.layer;
      if (index > layers()) return {};
      return {weights_.data() + weight_offsets_[index], weight_bytes(index),
              &weights_populated_[index]};
    }
    const std::shared_lock lock(mutex_);
    const auto found = contexts_.find(unit.context);
    if (found == contexts_.end()) return {};
    const MappedContext& context = *found->second;
    if (unit.layer >= layers() || unit.chunk >= context.chunks) return {};
    return {context.layers[unit.layer].data() + sizes_.chunk_bytes * unit.chunk, sizes_.chunk_bytes,
            &context.populated[std::size_t{unit.layer} * context.chunks + unit.chunk]};
  }

  std::vector<std::uint64_t> weight_offsets_;  // of each layer, then the head
  PageReservation weights_;
  std::unique_ptr<std::atomic<bool>[]> weights_populated_;
  mutable std::shared_mutex mutex_;  // guards contexts_
  std::unordered_map<std::uint32_t, std::unique_ptr<MappedContext>> contexts_;
};

}  // namespace

Result<std::unique_ptr<UnitMemory>> create_mapped_memory(const UnitSizes& sizes,
                                                         const UnitMemory::Options& options) {
  auto memory = std::make_unique<MappedMemory>(sizes, options);
  if (auto reserved = memory->reserve(); !reserved) return reserved.error();
  return std::unique_ptr<UnitMemory>(std::move(memory));
}

}  // namespace mzcache::gpu
