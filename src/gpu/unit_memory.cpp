#include "gpu/unit_memory.h"

#include "gpu/unit_memory_parts.h"

namespace mzcache::gpu {
namespace {

Result<void> check_size(std::uint64_t bytes, const std::string& what) {
  if (bytes != 0 && bytes % actors::kBlockAlignment == 0) return {};
  return Error{ErrorCode::kBadArgument, 0, "unit sizes",
               what + " is " + std::to_string(bytes) + " bytes, not a positive multiple of " +
                   std::to_string(actors::kBlockAlignment)};
}

}  // namespace

Result<void> check_sizes(const UnitSizes& sizes) {
  if (sizes.weights_bytes.empty()) {
    return Error{ErrorCode::kBadArgument, 0, "unit sizes", "no layers"};
  }
  for (std::size_t i = 0; i < sizes.weights_bytes.size(); ++i) {
    if (auto ok = check_size(sizes.weights_bytes[i], "layer " + std::to_string(i)); !ok) return ok;
  }
  if (auto ok = check_size(sizes.head_bytes, "the output head"); !ok) return ok;
  return check_size(sizes.chunk_bytes, "a KV chunk");
}

bool is_run(std::span<const actors::UnitId> run) noexcept {
  for (std::size_t i = 1; i < run.size(); ++i) {
    const actors::UnitId& first = run.front();
    if (first.kind != actors::UnitKind::kKv || run[i].kind != first.kind ||
        run[i].layer != first.layer || run[i].context != first.context ||
        run[i].chunk != first.chunk + i) {
      return false;
    }
  }
  return true;
}

Result<std::span<std::byte>> SwapRange::reserve(std::uint64_t bytes) {
  auto pages = PageReservation::create(actors::align_up(bytes, actors::kSegmentBytes));
  if (!pages) return pages.error();
  pages_ = std::move(*pages);
  return std::span(pages_.data(), pages_.bytes());
}

Result<void> SwapRange::populate(std::size_t segment) {
  return populate_pages(at(segment), actors::kSegmentBytes, huge_, fault_);
}

void SwapRange::release(std::size_t segment) noexcept {
  release_pages(at(segment), actors::kSegmentBytes);
}

Result<std::unique_ptr<UnitMemory>> UnitMemory::create(Device& device, const UnitSizes& sizes,
                                                       const Options& options) {
  if (auto ok = check_sizes(sizes); !ok) return ok.error();
  switch (device.info().mode) {
    case MemoryMode::kHostMapping:
      return create_mapped_memory(sizes, options);
    case MemoryMode::kFineSvm:
    case MemoryMode::kCoarseSvm:
    case MemoryMode::kBuffers:
      return create_grouped_memory(device, sizes, options);
  }
  return Error{ErrorCode::kInternal, 0, "create unit memory", "unknown mode"};
}

}  // namespace mzcache::gpu
