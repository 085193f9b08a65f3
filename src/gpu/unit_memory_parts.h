// What the kinds of unit memory share: sizes, contexts, segments. Internal to the room.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "actors/unit_names.h"
#include "gpu/unit_memory.h"
#include "gpu/unit_memory_pages.h"

namespace mzcache::gpu {

using actors::unit_name;

[[nodiscard]] Result<void> check_sizes(const UnitSizes& sizes);
// Whether `run` is what populate takes: ascending neighbours of one layer and kind.
[[nodiscard]] bool is_run(std::span<const actors::UnitId> run) noexcept;

// The in-memory swap's range: addresses once, memory segment by segment (a huge page each).
// Different segments may be used from different threads.
class SwapRange {
 public:
  SwapRange(bool huge, PopulateFault fault) : huge_(huge), fault_(std::move(fault)) {}
  [[nodiscard]] Result<std::span<std::byte>> reserve(std::uint64_t bytes);
  [[nodiscard]] Result<void> populate(std::size_t segment);
  void release(std::size_t segment) noexcept;

 private:
  [[nodiscard]] std::byte* at(std::size_t segment) const noexcept {
    return pages_.data() + segment * actors::kSegmentBytes;
  }

  const bool huge_;
  const PopulateFault fault_;
  PageReservation pages_;
};

// UnitMemory without the units: the swap's range and the process's figures are the same in every
// mode.
class UnitMemoryBase : public UnitMemory {
 public:
  UnitMemoryBase(const UnitSizes& sizes, const Options& options)
      : sizes_(sizes),
        huge_pages_(options.huge_pages),
        fault_(options.inject_failure),
        swap_(options.huge_pages, options.inject_failure) {}
  [[nodiscard]] Result<std::span<std::byte>> reserve_swap(std::uint64_t bytes) final {
    return swap_.reserve(bytes);
  }
  [[nodiscard]] Result<void> populate_segment(std::size_t index) final {
    return swap_.populate(index);
  }
  void release_segment(std::size_t index) noexcept final { swap_.release(index); }
  [[nodiscard]] std::byte* take_staging(std::uint64_t bytes) noexcept final {
    return map_pages(bytes, huge_pages_);
  }
  void give_staging(std::byte* staging, std::uint64_t bytes) noexcept final {
    unmap_pages(staging, bytes);
  }
  [[nodiscard]] std::uint64_t process_bytes() const noexcept final { return process_pss_bytes(); }
  [[nodiscard]] std::uint64_t resident_set_bytes() const noexcept final {
    return process_rss_bytes();
  }

 protected:
  [[nodiscard]] std::uint32_t layers() const noexcept {
    return static_cast<std::uint32_t>(sizes_.weights_bytes.size());
  }

  const UnitSizes sizes_;      // NOLINT(*-non-private-member-*)
  const bool huge_pages_;      // NOLINT(*-non-private-member-*)
  const PopulateFault fault_;  // NOLINT(*-non-private-member-*)

 private:
  SwapRange swap_;
};

[[nodiscard]] Result<std::unique_ptr<UnitMemory>> create_mapped_memory(
    const UnitSizes& sizes, const UnitMemory::Options& options);
// `device` outlives the memory.
[[nodiscard]] Result<std::unique_ptr<UnitMemory>> create_grouped_memory(
    Device& device, const UnitSizes& sizes, const UnitMemory::Options& options);

}  // namespace mzcache::gpu
