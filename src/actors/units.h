// Units: the smallest things evicted or restored (paper §4.2), and the places they can be.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

namespace mzcache::actors {

// Tokens in one KV chunk (paper §4.3: 256 saturate storage even with a small KV dimension).
inline constexpr std::uint32_t kChunkTokens = 256;
// Alignment of direct I/O: file offsets, lengths and buffer addresses.
inline constexpr std::uint64_t kBlockAlignment = 4096;
// One segment of the in-memory swap: one huge page.
inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{2} << 20;

enum class UnitKind : std::uint8_t {
  kWeights,  // all weight tensors of one layer
  kKv,       // one chunk of one layer of one context, K and V
  kHead,     // output head and final norm (with tied embeddings also the embedding)
};

struct UnitId {
  UnitKind kind = UnitKind::kWeights;
  std::uint32_t layer = 0;    // the head's layer is the number of layers
  std::uint32_t context = 0;  // KV only
  std::uint32_t chunk = 0;    // KV only: covers positions [chunk·256, chunk·256 + 256)

  friend auto operator<=>(const UnitId&, const UnitId&) = default;
};

constexpr UnitId weights_unit(std::uint32_t layer) { return {UnitKind::kWeights, layer, 0, 0}; }
constexpr UnitId head_unit(std::uint32_t layers) { return {UnitKind::kHead, layers, 0, 0}; }
constexpr UnitId kv_unit(std::uint32_t context, std::uint32_t layer, std::uint32_t chunk) {
  return {UnitKind::kKv, layer, context, chunk};
}

enum class FileId : std::uint32_t { kModel = 0, kSwap = 1 };

// A piece of a file and where it lands in a unit's buffer. Offsets and buffer_offset are multiples
// of kBlockAlignment; bytes is too, except that a range may end with the file.
struct FileRange {
  FileId file = FileId::kModel;
  std::uint64_t file_offset = 0;
  std::uint64_t buffer_offset = 0;
  std::uint64_t bytes = 0;  // bytes that must arrive; a direct read rounds up to the alignment
};

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace mzcache::actors

template <>
struct std::hash<mzcache::actors::UnitId> {
  std::size_t operator()(const mzcache::actors::UnitId& unit) const noexcept {
    std::uint64_t h = (std::uint64_t{unit.layer} << 34) ^ (std::uint64_t{unit.context} << 20) ^
                      (std::uint64_t{unit.chunk} << 2) ^ static_cast<std::uint64_t>(unit.kind);
    h *= 0x9E3779B97F4A7C15ULL;
    return static_cast<std::size_t>(h ^ (h >> 29));
  }
};
