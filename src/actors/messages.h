// The messages between the actors, in the order a restore meets them, then an evict.
// Commands are imperative, events past tense.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "actors/ports.h"
#include "actors/tier_codecs.h"
#include "actors/units.h"

namespace mzcache::actors {

// ---------------------------------------------------------------- where a unit's bytes come from

// Memory only, for now: whoever asked sends the next command itself.
struct HeldOrigin {};
// Nothing to fetch: a fresh KV chunk (zeros).
struct FreshOrigin {};
// Ranges of a file straight into the unit's buffer.
struct FileOrigin {
  std::vector<FileRange> ranges;
  std::optional<std::uint64_t> checksum;  // XXH3-64 of the unit's bytes (raw KV chunks)
};
// An encoded chunk in the in-memory swap.
struct MemoryOrigin {
  std::span<const std::byte> encoded;
  std::uint64_t checksum = 0;
  std::uint32_t token_count = 0;
};
// An encoded chunk in the swap file: read into staging, then decoded.
struct EncodedFileOrigin {
  FileRange range;  // buffer_offset 0; bytes = encoded size
  std::uint64_t checksum = 0;
  std::uint32_t token_count = 0;
  CodecTier tier = CodecTier::kMemory;
};
using Origin = std::variant<FreshOrigin, HeldOrigin, FileOrigin, MemoryOrigin, EncodedFileOrigin>;

// ---------------------------------------------------------------- restore

// Coordinator → allocator. Neighbours of one layer and kind, ascending; origins alongside.
struct AllocateUnits {
  std::vector<UnitId> units;
  std::vector<Origin> origins;
};
// Allocator or decompressor → coordinator: the run has memory (not yet content). On failure nothing
// was allocated.
struct UnitsAllocated {
  std::vector<UnitId> units;
  Nanoseconds busy{0};
  Error error;
};
// Allocator → reader.
struct ReadUnit {
  UnitId unit;
  Origin origin;  // FileOrigin or EncodedFileOrigin
};
// Staging memory for an encoded chunk on its way from the file to the decoder; returns to its pool
// when the last owner lets go.
using StagingLease = std::shared_ptr<std::span<std::byte>>;
// Allocator or reader → decompressor.
struct DecodeChunk {
  UnitId unit;
  std::span<const std::byte> encoded;
  std::uint64_t checksum = 0;
  std::uint32_t token_count = 0;
  CodecTier tier = CodecTier::kMemory;
  StagingLease staging;          // empty where the bytes lie in the in-memory swap
  std::uint64_t bytes_read = 0;  // passed on to UnitReady
  Nanoseconds read{0};
};
[[nodiscard]] inline DecodeChunk decode_from_memory(UnitId unit, const MemoryOrigin& origin) {
  DecodeChunk decode;
  decode.unit = unit;
  decode.encoded = origin.encoded;
  decode.checksum = origin.checksum;
  decode.token_count = origin.token_count;
  return decode;
}
// Allocator (fresh), reader or decompressor → coordinator: the content is there.
struct UnitReady {
  UnitId unit;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_decoded = 0;  // raw bytes
  Nanoseconds read{0};  // with requests of the unit's file in flight, since the last report
  Nanoseconds decode{0};
};
// Reader or decompressor → coordinator: the unit's memory is allocated, its content is not right.
struct UnitFailed {
  UnitId unit;
  Error error;
};

// Coordinator → reader: rows of the input embedding into `buffer` (file offsets need no alignment).
struct ReadRows {
  std::uint64_t request = 0;
  std::vector<FileRange> rows;  // file_offset/bytes as in the file; buffer_offset into `buffer`
  std::span<std::byte> buffer;
};
struct RowsRead {
  std::uint64_t request = 0;
  Error error;
};

// ---------------------------------------------------------------- compute

// Coordinator → prefill: a slice, with what is already there. slice.undisturbed: it may count as
// that where everything is.
struct ComputeTokens {
  std::uint64_t request = 0;
  ComputeSlice slice;
  std::uint32_t layers = 0;
  std::vector<bool> weights_ready;  // per layer, and the head last (layers + 1 entries)
  std::vector<bool> kv_ready;       // per layer
};
enum class LayerPart : std::uint8_t { kWeights, kKv };
// Coordinator → prefill: this part of this layer became complete (layer = layers: the head).
struct LayerReady {
  std::uint64_t request = 0;
  std::uint32_t layer = 0;
  LayerPart part = LayerPart::kWeights;
};
// Coordinator → prefill: stop at the next layer boundary, drain, answer with TokenReady{stopped}.
struct StopCompute {
  std::uint64_t request = 0;
};
// Coordinator → prefill, between slices: what the last one left of scratch goes back to the system.
struct ReleaseScratch {};
// Prefill → coordinator: it is gone.
struct ScratchReleased {};
// The compute queue → prefill, through its listener.
struct StageComputed {
  ComputeCompletion completion;
};
// Prefill → coordinator: a layer left the device (progress, and its timing).
struct LayerComputed {
  std::uint64_t request = 0;
  std::uint32_t layer = 0;
  Nanoseconds begin{0};
  Nanoseconds end{0};
};
// Prefill → coordinator: the slice is done and the queue drained. logits: one span per wanted row,
// valid until the next ComputeTokens.
struct TokenReady {
  std::uint64_t request = 0;
  bool stopped = false;
  Error error;
  std::vector<std::span<const float>> logits;
  Nanoseconds compute{0};  // device busy
  Nanoseconds wait{0};     // device idle between begin and end, for want of units
  Nanoseconds begin{0};    // first and last device activity
  Nanoseconds end{0};
};

// ---------------------------------------------------------------- evict

// Coordinator → compressor: encode the chunk into `destination`, which is the coordinator's: in the
// in-memory swap, or staging on its way to the file.
struct CompressChunk {
  UnitId unit;
  std::uint32_t token_count = 0;
  std::span<std::byte> destination;
  CodecTier tier = CodecTier::kMemory;
};
struct ChunkCompressed {
  UnitId unit;
  std::uint64_t encoded_bytes = 0;
  std::uint64_t checksum = 0;
  Nanoseconds busy{0};
  Error error;
};
// Coordinator → writer: the chunk's raw bytes (or `encoded`, where not empty) to the swap file.
// grow_to: the file's size that must be allocated before.
struct WriteChunk {
  UnitId unit;
  std::span<const std::byte> encoded;
  std::uint64_t checksum = 0;  // of `encoded`, from when it was encoded
  std::uint64_t file_offset = 0;
  std::uint64_t grow_to = 0;
  StagingLease staging;  // where not empty, `encoded` lies at its beginning and is written from it
};
// Coordinator → writer: no write is under way and none follows soon, so staging is given up. Until
// then it is kept: while encoding is slower than the disk the writer runs dry after every chunk.
struct WritesOver {};
struct ChunkWritten {
  UnitId unit;
  std::uint64_t bytes_written = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of the bytes written, without padding
  Error error;
};
// Coordinator → allocator; acknowledged so that Evict answers only when memory is back.
struct ReleaseUnits {
  std::vector<UnitId> units;
};
struct UnitsReleased {
  std::vector<UnitId> units;
};

}  // namespace mzcache::actors
