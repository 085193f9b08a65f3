// Ports: what the actors need from the world. src/io, src/gpu and src/codec implement them on real
// devices, src/sim on simulated ones under a virtual clock; the actors never know which.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/units.h"
#include "mzcache/errors.h"

namespace mzcache::actors {

using Nanoseconds = std::chrono::nanoseconds;

// Monotonic time. Handlers that report durations read this, never a wall clock.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Nanoseconds now() const noexcept = 0;
};

// What an actor waits on besides its inbox (the ring). A dispatcher with threads blocks in wait();
// a simulated device is never waited on: it calls the function given to set_notify when a
// completion falls due.
class WaitSource {
 public:
  virtual ~WaitSource() = default;
  // Blocks the owner's thread until wake() was called (before or during) or a completion arrived.
  virtual void wait() noexcept = 0;
  // From any thread; makes the present or next wait() return.
  virtual void wake() noexcept = 0;
  // Simulation only: to be called when there is something to reap.
  virtual void set_notify(std::function<void()> notify) = 0;
};

// Storage. One owner thread submits and reaps. A request may complete short or with -EAGAIN,
// -EINTR: the actor asks again, so that simulated faults exercise the same code.
struct BlockRequest {
  enum class Operation : std::uint8_t { kRead, kWrite };
  Operation operation = Operation::kRead;
  FileId file = FileId::kModel;
  std::uint64_t offset = 0;
  std::span<std::byte> buffer;  // stays valid until the completion was reaped, cancelled or not
  std::uint64_t tag = 0;        // returned with the completion
};
struct BlockCompletion {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes transferred, or a negative errno
};

class BlockDevice : public WaitSource {
 public:
  // Requests the device takes at once (the queue depth).
  [[nodiscard]] virtual std::size_t depth() const noexcept = 0;
  // Bytes of the largest request that is worth making (config storage.block).
  [[nodiscard]] virtual std::uint64_t block_bytes() const noexcept = 0;
  // Queues one request; the caller keeps at most depth() in flight.
  [[nodiscard]] virtual Result<void> submit(const BlockRequest& request) = 0;
  // Hands what was queued to the device.
  virtual void flush() = 0;
  // Completions that arrived, without blocking; returns how many were written to `out`.
  [[nodiscard]] virtual std::size_t reap(std::span<BlockCompletion> out) noexcept = 0;
  // Makes [0, bytes) of the file allocated on disk (swap only). kNoSpace where it does not fit.
  [[nodiscard]] virtual Result<void> grow(FileId file, std::uint64_t bytes) = 0;
  // For messages to people.
  [[nodiscard]] virtual std::string name(FileId file) const = 0;
};

// Memory for a short while, beside the units: staging of encoded chunks and of embedding rows. This
// one takes it from the heap. Thread-safe.
class StagingMemory {
 public:
  StagingMemory() = default;
  virtual ~StagingMemory() = default;
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  // `bytes`, whole blocks, aligned to kBlockAlignment; null where memory is short.
  [[nodiscard]] virtual std::byte* take_staging(std::uint64_t bytes) noexcept {
    return static_cast<std::byte*>(
        ::operator new(bytes, std::align_val_t{kBlockAlignment}, std::nothrow));
  }
  virtual void give_staging(std::byte* staging, std::uint64_t) noexcept {
    ::operator delete(staging, std::align_val_t{kBlockAlignment});
  }
};

// Memory that processor and compute device address alike: one address range per unit inside larger
// reservations; populated and given back unit by unit. populate/release/segments may be called from
// several threads for different units. Staging that was given back is back with the system at once:
// a heap would keep for good what one long restore needed.
class SharedMemory : public StagingMemory {
 public:
  // Reserves address ranges for the chunks of a context (positions 0 … chunks·256). No memory yet.
  [[nodiscard]] virtual Result<void> open_context(std::uint32_t context, std::uint32_t chunks) = 0;
  virtual void close_context(std::uint32_t context) noexcept = 0;
  // Gives memory to `run`: neighbours of one layer and kind in ascending order. All or nothing.
  // Fresh memory reads as zero (KV) until written.
  [[nodiscard]] virtual Result<void> populate(std::span<const UnitId> run) = 0;
  // Gives the memory back to the system before returning.
  virtual void release(std::span<const UnitId> units) noexcept = 0;
  // The unit's address range (populated or not). Size: whole blocks of kBlockAlignment.
  [[nodiscard]] virtual std::span<std::byte> bytes(UnitId unit) noexcept = 0;
  // The in-memory swap's address range: reserved once, at least `bytes` long, aligned to
  // kSegmentBytes. Its segments get memory and give it back one by one.
  [[nodiscard]] virtual Result<std::span<std::byte>> reserve_swap(std::uint64_t bytes) = 0;
  [[nodiscard]] virtual Result<void> populate_segment(std::size_t index) = 0;
  virtual void release_segment(std::size_t index) noexcept = 0;
  // True where the host may read a resident unit at any time, without begin/end_host_access.
  [[nodiscard]] virtual bool host_coherent() const noexcept { return true; }
  // Coarse-grain devices need the host's view closed before the device reads: called by the actor
  // that filled the unit, and by whoever reads a unit on the host. No-ops where memory is coherent.
  virtual void begin_host_access(UnitId) noexcept {}
  virtual void end_host_access(UnitId) noexcept {}
  // Bytes this process holds at this moment (Linux: PSS), 0 where unknown.
  [[nodiscard]] virtual std::uint64_t process_bytes() const noexcept = 0;
  // The same with shared pages counted whole (Linux: RSS). Memory that only this process has makes
  // both fall alike, and this one costs microseconds, where PSS costs milliseconds.
  [[nodiscard]] virtual std::uint64_t resident_set_bytes() const noexcept = 0;
};

// A full chunk that attention reads as it lies in the in-memory swap.
struct EncodedChunk {
  std::uint32_t layer = 0;
  std::uint32_t chunk = 0;
  std::span<const std::byte> bytes;  // KvCodec::in_place(); stays as it is until the slice is done
};

// One slice of a forward pass: token_count tokens from first_position on.
struct ComputeSlice {
  std::uint32_t context = 0;
  std::uint32_t first_position = 0;
  std::uint32_t token_count = 0;
  // One embedding row per token, in the file's own tensor type; valid until begin_slice returned.
  std::vector<const std::byte*> embedding_rows;
  // Offsets within the slice (ascending) whose logits are wanted; may be empty.
  std::vector<std::uint32_t> logit_rows;
  // Chunks of the context that are not resident and are read encoded instead, ascending by layer,
  // then chunk. None of them is written to. Only for queues that reads_encoded().
  std::vector<EncodedChunk> encoded;
  // Everything the slice needs is resident and nothing else will want the cores until it is done:
  // the device may take all that is enqueued before a flush as one piece.
  bool undisturbed = false;
};

// A layer is computed in two stages because its units become ready apart: the projections to Q, K,
// V need only weights and write to scratch; storing K and V and all that follows need the KV
// chunks.
enum class LayerStage : std::uint8_t { kProject, kAttend };

struct ComputeCompletion {
  std::uint64_t ticket = 0;
  bool stopped = false;  // the stop flag was seen: nothing may be assumed of the results
  Error error;           // kOk or what the device said
  Nanoseconds begin{0};  // when the device worked on it, on the dispatcher's clock
  Nanoseconds end{0};
};

// Σ q² of rotated queries over sampled tokens, for codecs that weigh keys by what looks at them.
struct QuerySamples {
  std::uint32_t width = 0;    // query heads · head_dim
  std::uint32_t tokens = 0;   // sampled since sampling began
  std::vector<float> energy;  // [layer][width]
};

// The compute device's in-order queue. One owner (the prefill actor) enqueues; request_stop may
// come from any thread. Completions arrive in order at the listener, one at a time but on several
// threads of the device's own, so that what the listener posts to a mailbox may come in any order.
class ComputeQueue {
 public:
  virtual ~ComputeQueue() = default;
  virtual void set_listener(std::function<void(const ComputeCompletion&)> listener) = 0;
  // Prepares scratch for a slice; its tokens are embedded with the first stage. No slice may be
  // under way: one that was given up has no stage left on the device.
  [[nodiscard]] virtual Result<void> begin_slice(const ComputeSlice& slice) = 0;
  // Enqueues one stage of one layer; units it names must be resident, or among the slice's encoded
  // chunks. ticket 0: no completion of
  // its own. On an error nothing of the stage is left on the device.
  [[nodiscard]] virtual Result<void> enqueue_layer(std::uint32_t layer, LayerStage stage,
                                                   std::uint64_t ticket) = 0;
  // Final norm and output head for the slice's logit_rows.
  [[nodiscard]] virtual Result<void> enqueue_head(std::uint64_t ticket) = 0;
  // Hands what was enqueued to the device.
  virtual void flush() = 0;
  // Whether attention takes chunks as they lie encoded (slice.encoded).
  [[nodiscard]] virtual bool reads_encoded() const noexcept { return false; }
  // Whether the slice under way is best enqueued whole before a flush.
  [[nodiscard]] virtual bool takes_whole_slice() const noexcept { return false; }
  // Sets the flag that every kernel reads first; queued work then drains without effect.
  virtual void request_stop() noexcept = 0;
  // Clears the flag. Only when nothing is enqueued.
  virtual void clear_stop() noexcept = 0;
  // Logits of the slice's i-th wanted row, vocabulary floats; valid until the next begin_slice or
  // release_scratch.
  [[nodiscard]] virtual std::span<const float> logits(std::size_t row) const = 0;
  // Scratch the queue holds now, bytes.
  [[nodiscard]] virtual std::uint64_t scratch_bytes() const noexcept = 0;
  // Gives it back until the next slice. Only while no slice is under way.
  virtual void release_scratch() noexcept {}
  // From the next slice on (or no longer) queries of long slices are sampled; sums start at zero.
  // Only while no slice is under way, as the next one. Devices that cannot do it say false.
  [[nodiscard]] virtual bool sample_queries(bool) { return false; }
  [[nodiscard]] virtual Result<QuerySamples> query_samples() { return QuerySamples{}; }
  // The largest slice begin_slice takes.
  [[nodiscard]] virtual std::uint32_t slice_tokens_max() const noexcept = 0;
};

// How rotary position embedding was applied to K (codecs that undo it need it).
struct RopeDescription {
  enum class Pairing : std::uint8_t { kInterleaved, kSplitHalves };
  Pairing pairing = Pairing::kInterleaved;
  std::uint32_t dimensions = 0;  // rotated leading dimensions of a head; 0: none
  float base = 10000.0F;
  float scale = 1.0F;          // positions are multiplied by this (linear scaling: 1/factor)
  std::vector<float> factors;  // dimensions/2 divisors of the inverse frequency, or empty
  float magnitude = 1.0F;      // cosine and sine are multiplied by this (YaRN)

  friend bool operator==(const RopeDescription&, const RopeDescription&) = default;
};

// The order of FP16 values inside a chunk: all of K, then all of V. Sizes never include padding.
struct ChunkLayout {
  enum class Order : std::uint8_t {
    kTiled,     // K [kv_head][token/32][dim][32 tokens]; V [kv_head][dim/32][token][32 dims],
                // whose last block of dims may be narrower than 32
    kRowMajor,  // K and V [token][kv_head][dim]
  };
  Order order = Order::kTiled;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;  // of K and of V
  std::uint32_t tokens = kChunkTokens;

  [[nodiscard]] constexpr std::uint64_t values_per_half() const {
    return std::uint64_t{kv_heads} * head_dim * tokens;
  }
  [[nodiscard]] constexpr std::uint64_t bytes() const { return values_per_half() * 2 * 2; }
};

// One chunk as a codec sees it.
template <class Byte>
struct BasicChunkView {
  std::uint32_t layer = 0;
  std::uint32_t first_position = 0;
  std::uint32_t token_count = 0;  // valid tokens, 1 … layout->tokens; the rest is not looked at
  const ChunkLayout* layout = nullptr;
  const RopeDescription* rope = nullptr;
  std::span<Byte> bytes;  // layout->bytes(): K then V
};
using ChunkView = BasicChunkView<const std::byte>;
using MutableChunkView = BasicChunkView<std::byte>;

// A KV codec: pure functions over spans, thread-safe, no allocation inside.
class KvCodec {
 public:
  virtual ~KvCodec() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t version() const noexcept = 0;
  // True where decode(encode(x)) == x for every x.
  [[nodiscard]] virtual bool lossless() const noexcept = 0;
  // Most bytes an encoded chunk of token_count tokens takes (header included).
  [[nodiscard]] virtual std::uint64_t bound(const ChunkLayout& layout,
                                            std::uint32_t token_count) const noexcept = 0;
  // What an encoded chunk usually takes: what plans start from until sizes are known.
  [[nodiscard]] virtual std::uint64_t typical_bytes(const ChunkLayout& layout,
                                                    std::uint32_t token_count) const noexcept {
    return bound(layout, token_count);
  }
  // The part of an encoded chunk, one that encode() made, from which attention can take the very
  // values that decode() would give, where a device knows the form. Empty where it must be decoded:
  // codecs and payloads without such a form, and chunks that are not full.
  [[nodiscard]] virtual std::span<const std::byte> in_place(std::span<const std::byte>,
                                                            const ChunkLayout&,
                                                            std::uint32_t) const noexcept {
    return {};
  }
  // Bytes of scratch encode and decode want.
  [[nodiscard]] virtual std::uint64_t scratch_bytes(const ChunkLayout& layout) const noexcept = 0;
  // Encoded size, at most bound(). kBadArgument where `out` or `scratch` is too small.
  [[nodiscard]] virtual Result<std::uint64_t> encode(const ChunkView& chunk,
                                                     std::span<std::byte> out,
                                                     std::span<std::byte> scratch) const = 0;
  // Any bytes are safe: kBadFormat names what is wrong. Only token_count tokens are written.
  [[nodiscard]] virtual Result<void> decode(std::span<const std::byte> encoded,
                                            const MutableChunkView& chunk,
                                            std::span<std::byte> scratch) const = 0;
};

}  // namespace mzcache::actors
