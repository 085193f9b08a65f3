// Units in the device's own memory (SVM slabs or buffers): several units share one allocation, made
// when the first of them is populated and freed when the last is released.
//
//   mode                  weights            KV
//   fine-svm, coarse-svm  a slab per layer   a slab per kSlabBytes of neighbouring chunks
//   buffers               a buffer per layer a buffer per (context, layer)
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "gpu/unit_memory_parts.h"
#include "gpu/unit_memory_slabs.h"

namespace mzcache::gpu {
namespace {

using actors::UnitId;
using actors::UnitKind;

// Enough chunks that an allocation is not made of overhead, few enough that evicting a few of them
// frees something.
constexpr std::uint64_t kSlabBytes = std::uint64_t{4} << 20;

struct GroupKey {
  UnitKind kind = UnitKind::kWeights;
  std::uint32_t context = 0;
  std::uint32_t layer = 0;
  std::uint32_t group = 0;
  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

// Where a unit lies. bytes 0: there is no such unit.
struct Place {
  GroupKey key;
  std::uint32_t index = 0;   // within the group
  std::uint64_t offset = 0;  // within the slab
  std::uint64_t bytes = 0;
  std::uint32_t group_units = 1;  // units the group holds
  std::span<std::byte> range;     // buffers: the group's own addresses
};

struct Group {
  explicit Group(std::uint32_t units) : populated(units, 0), dirty(units, 0), open(units, 0) {}
  std::unique_ptr<DeviceSlab> slab;
  std::uint32_t users = 0;
  std::vector<std::uint8_t> populated;  // by unit; guarded by the owner's mutex
  std::vector<std::uint8_t> dirty;      // by unit: was populated before; guarded as well
  std::vector<std::uint8_t> open;       // by unit; belongs to whoever uses the unit
};

class GroupedMemory final : public UnitMemoryBase {
 public:
  GroupedMemory(const Device& device, cl::CommandQueue transfers, const UnitSizes& sizes,
                const Options& options)
      : UnitMemoryBase(sizes, options),
        device_(device),
        transfers_(std::move(transfers)),
        buffers_(device.info().mode == MemoryMode::kBuffers),
        coherent_(device.info().mode == MemoryMode::kFineSvm) {}

  [[nodiscard]] bool host_coherent() const noexcept override { return coherent_; }

  ~GroupedMemory() override {
    for (auto& [key, group] : groups_) close_all(*group, key);
  }
  GroupedMemory(const GroupedMemory&) = delete;
  GroupedMemory& operator=(const GroupedMemory&) = delete;

  Result<void> reserve() {
    for (std::uint32_t unit = 0; unit <= layers(); ++unit) {
      const std::uint64_t bytes = weight_bytes(unit);
      const std::string what =
          unit == layers() ? "the output head" : "layer " + std::to_string(unit);
      if (auto fits = check_fits(bytes, what); !fits) return fits;
      if (!buffers_) continue;
      auto reservation = PageReservation::create(bytes);
      if (!reservation) return reservation.error();
      weight_ranges_.push_back(std::move(*reservation));
    }
    return {};
  }

  Result<void> open_context(std::uint32_t context, std::uint32_t chunks) override {
    if (chunks == 0) return Error{ErrorCode::kBadArgument, 0, "open context", "no chunks"};
    ContextRanges opened;
    opened.chunks = chunks;
    if (buffers_) {
      const std::uint64_t bytes = sizes_.chunk_bytes * chunks;
      if (auto fits = check_fits(bytes, "the KV cache of one layer"); !fits) return fits;
      for (std::uint32_t layer = 0; layer < layers(); ++layer) {
        auto reservation = PageReservation::create(bytes);
        if (!reservation) return reservation.error();
        opened.layers.push_back(std::move(*reservation));
      }
    }
    const std::lock_guard lock(mutex_);
    if (!contexts_.emplace(context, std::move(opened)).second) {
      return Error{ErrorCode::kBadArgument, 0, "open context",
                   "context " + std::to_string(context) + " is open already"};
    }
    return {};
  }

  void close_context(std::uint32_t context) noexcept override {
    const std::lock_guard lock(mutex_);
    for (auto group = groups_.begin(); group != groups_.end();) {
      const bool mine = group->first.kind == UnitKind::kKv && group->first.context == context;
      if (mine) close_all(*group->second, group->first);
      group = mine ? groups_.erase(group) : std::next(group);
    }
    contexts_.erase(context);
  }

  Result<void> populate(std::span<const UnitId> run) override {
    if (run.empty()) return {};
    if (!is_run(run)) {
      return Error{ErrorCode::kInternal, 0, "populate", "not a run: from " + unit_name(run[0])};
    }
    for (std::size_t i = 0; i < run.size(); ++i) {
      if (auto populated = populate_unit(run[i]); !populated) {
        release(run.first(i));
        return populated;
      }
    }
    return {};
  }

  void release(std::span<const UnitId> units) noexcept override {
    for (const UnitId unit : units) {
      const std::lock_guard lock(mutex_);
      const Place place = place_of(unit);
      const auto found = groups_.find(place.key);
      if (place.bytes == 0 || found == groups_.end()) continue;
      Group& group = *found->second;
      if (group.populated[place.index] == 0) continue;
      if (std::exchange(group.open[place.index], 0) != 0) group.slab->close(place.offset);
      group.populated[place.index] = 0;
      // Under the lock: a buffer's addresses are used again by its successor.
      if (--group.users == 0) groups_.erase(found);
    }
  }

  std::span<std::byte> bytes(UnitId unit) noexcept override {
    const auto [group, place] = find(unit);
    if (group == nullptr) {
      // Buffers lie in addresses of ours, which are there before the memory is.
      if (place.range.empty()) return {};
      return place.range.subspan(place.offset, place.bytes);
    }
    return {group->slab->host() + place.offset, place.bytes};
  }

  void begin_host_access(UnitId unit) noexcept override {
    const auto [group, place] = find(unit);
    if (group == nullptr || group->open[place.index] != 0) return;
    if (group->slab->open(place.offset, place.bytes)) group->open[place.index] = 1;
  }

  void end_host_access(UnitId unit) noexcept override { close_view(unit); }

  KernelAddress address(UnitId unit) const noexcept override {
    const auto [group, place] = close_view(unit);
    return group == nullptr ? KernelAddress{} : group->slab->address(place.offset);
  }

  std::vector<const void*> reachable_pointers() const override {
    std::vector<const void*> pointers;
    if (buffers_) return pointers;
    const std::lock_guard lock(mutex_);
    pointers.reserve(groups_.size());
    for (const auto& [key, group] : groups_) pointers.push_back(group->slab->host());
    return pointers;
  }

 private:
  struct ContextRanges {
    std::uint32_t chunks = 0;
    std::vector<PageReservation> layers;  // buffers only
  };
  struct Found {
    Group* group = nullptr;  // lives as long as its unit is populated
    Place place;
  };

  [[nodiscard]] std::uint64_t weight_bytes(std::uint32_t unit) const {
    return unit < layers() ? sizes_.weights_bytes[unit] : sizes_.head_bytes;
  }
  [[nodiscard]] std::uint32_t chunks_per_slab() const {
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, kSlabBytes / sizes_.chunk_bytes));
  }

  [[nodiscard]] Result<void> check_fits(std::uint64_t bytes, const std::string& what) const {
    const std::uint64_t limit = device_.info().allocation_bytes_max;
    if (bytes + actors::kBlockAlignment <= limit) return {};
    return Error{ErrorCode::kUnsupported, 0, "allocate on " + device_.info().name,
                 what + " takes " + std::to_string(bytes) +
                     " bytes, more than one allocation may have there: " + std::to_string(limit)};
  }

  // Requires mutex_.
  [[nodiscard]] Place place_of(UnitId unit) const noexcept {
    if (unit.kind != UnitKind::kKv) {
      const std::uint32_t index = unit.kind == UnitKind::kHead ? layers() : unit.layer;
      if (index > layers()) return {};
      Place place{{UnitKind::kWeights, 0, index, 0}, 0, 0, weight_bytes(index), 1, {}};
      if (buffers_) place.range = {weight_ranges_[index].data(), place.bytes};
      return place;
    }
    const auto context = contexts_.find(unit.context);
    if (context == contexts_.end() || unit.layer >= layers() ||
        unit.chunk >= context->second.chunks) {
      return {};
    }
    const std::uint32_t chunks = context->second.chunks;
    const std::uint32_t per_group = buffers_ ? chunks : chunks_per_slab();
    const std::uint32_t group = unit.chunk / per_group;
    const std::uint32_t index = unit.chunk % per_group;
    Place place{{UnitKind::kKv, unit.context, unit.layer, group},
                index,
                sizes_.chunk_bytes * index,
                sizes_.chunk_bytes,
                std::min(per_group, chunks - group * per_group),
                {}};
    if (buffers_) {
      place.range = {context->second.layers[unit.layer].data(), sizes_.chunk_bytes * chunks};
    }
    return place;
  }

  // The populated unit's group and place; no group where it is not populated.
  [[nodiscard]] Found find(UnitId unit) const noexcept {
    const std::lock_guard lock(mutex_);
    Found found{nullptr, place_of(unit)};
    const auto group = groups_.find(found.place.key);
    if (found.place.bytes != 0 && group != groups_.end() &&
        group->second->populated[found.place.index] != 0) {
      found.group = group->second.get();
    }
    return found;
  }

  Found close_view(UnitId unit) const noexcept {
    const Found found = find(unit);
    if (found.group != nullptr && std::exchange(found.group->open[found.place.index], 0) != 0) {
      found.group->slab->close(found.place.offset);
    }
    return found;
  }

  void close_all(Group& group, const GroupKey& key) noexcept {
    const std::uint64_t unit_bytes = key.kind == UnitKind::kKv ? sizes_.chunk_bytes : 0;
    for (std::size_t i = 0; i < group.open.size(); ++i) {
      if (group.open[i] != 0) group.slab->close(unit_bytes * i);
    }
  }

  [[nodiscard]] Result<std::unique_ptr<DeviceSlab>> create_slab(const Place& place) const {
    if (buffers_) return create_buffer_slab(device_, transfers_, place.range, huge_pages_, fault_);
    const std::uint64_t bytes = place.bytes * place.group_units;
    if (fault_) {
      if (const int injected = fault_(bytes); injected != 0) {
        return Error{ErrorCode::kNoMemory, injected, "allocate shared memory",
                     std::to_string(bytes) + " bytes"};
      }
    }
    return create_svm_slab(device_, transfers_, bytes);
  }

  // Marks the unit populated, in a slab that is made if need be. `fresh`: it reads as zero already.
  [[nodiscard]] Result<Found> claim(UnitId unit, bool& fresh) {
    const std::lock_guard lock(mutex_);
    const Place place = place_of(unit);
    if (place.bytes == 0) {
      return Error{ErrorCode::kInternal, 0, "populate", unit_name(unit) + " does not exist"};
    }
    auto found = groups_.find(place.key);
    if (found == groups_.end()) {
      auto slab = create_slab(place);
      if (!slab) return slab.error();
      auto group = std::make_unique<Group>(place.group_units);
      group->slab = std::move(*slab);
      found = groups_.emplace(place.key, std::move(group)).first;
    }
    Group& group = *found->second;
    if (group.populated[place.index] != 0) {
      return Error{ErrorCode::kInternal, 0, "populate", unit_name(unit) + " is populated already"};
    }
    fresh = group.slab->zeroed() && group.dirty[place.index] == 0;
    group.dirty[place.index] = 1;
    group.populated[place.index] = 1;
    ++group.users;
    return Found{&group, place};
  }

  [[nodiscard]] Result<void> populate_unit(UnitId unit) {
    bool fresh = false;
    auto claimed = claim(unit, fresh);
    if (!claimed) return claimed.error();
    auto& [group, place] = *claimed;
    if (auto opened = group->slab->open(place.offset, place.bytes); !opened) {
      release({&unit, 1});
      return opened;
    }
    group->open[place.index] = 1;
    if (!fresh) std::memset(group->slab->host() + place.offset, 0, place.bytes);
    return {};
  }

  const Device& device_;
  const cl::CommandQueue transfers_;
  const bool buffers_;
  const bool coherent_;
  std::vector<PageReservation> weight_ranges_;  // buffers only: of each layer, then the head
  mutable std::mutex mutex_;                    // guards all below
  std::map<std::uint32_t, ContextRanges> contexts_;
  std::map<GroupKey, std::unique_ptr<Group>> groups_;
};

}  // namespace

Result<std::unique_ptr<UnitMemory>> create_grouped_memory(Device& device, const UnitSizes& sizes,
                                                          const UnitMemory::Options& options) {
  // Its own queue: moving a unit must not wait for the layers that are being computed.
  auto transfers = device.create_queue(false);
  if (!transfers) return transfers.error();
  auto memory = std::make_unique<GroupedMemory>(device, std::move(*transfers), sizes, options);
  if (auto reserved = memory->reserve(); !reserved) return reserved.error();
  return std::unique_ptr<UnitMemory>(std::move(memory));
}

}  // namespace mzcache::gpu
