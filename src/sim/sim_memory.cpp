#include "sim/sim_memory.h"

#include <algorithm>
#include <cstring>

#include "actors/unit_names.h"

namespace mzcache::sim {

using actors::kSegmentBytes;
using actors::UnitId;
using actors::UnitKind;

std::uint64_t SimMemory::size_of(UnitId unit) const noexcept {
  if (unit.kind == UnitKind::kHead) return model_.head.unit_bytes;
  if (unit.kind == UnitKind::kWeights) return model_.layer[unit.layer].unit_bytes;
  return model_.chunk_bytes();
}

bool SimMemory::fails() {
  return std::uniform_real_distribution<>(0, 1)(dispatcher_.random()) < machine_.no_memory;
}

Result<void> SimMemory::open_context(std::uint32_t context, std::uint32_t chunks) {
  contexts_[context] = chunks;
  return {};
}
void SimMemory::close_context(std::uint32_t context) noexcept { contexts_.erase(context); }

Result<void> SimMemory::populate(std::span<const UnitId> run) {
  if (fails()) return Error{ErrorCode::kNoMemory, 0, "populate", "injected"};
  std::uint64_t total = 0;
  for (const UnitId unit : run) {
    if (unit.kind == UnitKind::kKv && unit.chunk >= contexts_[unit.context]) {
      violate("populate beyond the context: " + actors::unit_name(unit));
    }
    const std::uint64_t size = size_of(unit);
    if (!units_.emplace(unit, std::vector<std::byte>(machine_.content ? size : 0)).second) {
      violate("populated twice: " + actors::unit_name(unit));
    }
    total += size;
  }
  held_ += total;
  const actors::Nanoseconds time(
      static_cast<std::int64_t>(static_cast<double>(total) / machine_.allocate_bytes_per_s * 1e9));
  dispatcher_.charge(cores_.run(dispatcher_.now(), time, machine_.contention.allocate));
  return {};
}

void SimMemory::release(std::span<const UnitId> units) noexcept {
  for (const UnitId unit : units) {
    if (units_.erase(unit) == 0) {
      violate("released without memory: " + actors::unit_name(unit));
      continue;
    }
    held_ -= size_of(unit);
  }
}

std::span<std::byte> SimMemory::bytes(UnitId unit) noexcept {
  const auto found = units_.find(unit);
  if (found != units_.end()) {
    if (machine_.content) return found->second;
    if (zeros_ == nullptr) {
      std::uint64_t largest = std::max(model_.head.unit_bytes, model_.chunk_bytes());
      for (const auto& layer : model_.layer) largest = std::max(largest, layer.unit_bytes);
      zeros_.reset(static_cast<std::byte*>(std::calloc(largest, 1)));
    }
    return {zeros_.get(), size_of(unit)};
  }
  violate("touched without memory: " + actors::unit_name(unit));
  nothing_.assign(size_of(unit), std::byte{0xEE});
  return nothing_;
}

Result<std::span<std::byte>> SimMemory::reserve_swap(std::uint64_t bytes) {
  swap_.reset(static_cast<std::byte*>(std::calloc(bytes, 1)));
  if (swap_ == nullptr) return Error{ErrorCode::kNoMemory, 0, "reserve swap", "simulation"};
  segments_.assign(bytes / kSegmentBytes, false);
  return std::span<std::byte>(swap_.get(), bytes);
}

Result<void> SimMemory::populate_segment(std::size_t index) {
  if (fails()) return Error{ErrorCode::kNoMemory, 0, "populate", "injected"};
  if (segments_[index]) violate("segment populated twice");
  segments_[index] = true;
  held_ += kSegmentBytes;
  segments_held_ += kSegmentBytes;
  return {};
}

void SimMemory::release_segment(std::size_t index) noexcept {
  if (!segments_[index]) violate("segment released without memory");
  segments_[index] = false;
  held_ -= kSegmentBytes;
  segments_held_ -= kSegmentBytes;
}

void SimMemory::touch_swap(std::span<const std::byte> bytes) {
  const auto offset = static_cast<std::uint64_t>(bytes.data() - swap_.get());
  for (std::uint64_t i = offset / kSegmentBytes; i <= (offset + bytes.size() - 1) / kSegmentBytes;
       ++i) {
    if (!segments_[i]) return violate("touched a segment without memory");
  }
}

}  // namespace mzcache::sim
