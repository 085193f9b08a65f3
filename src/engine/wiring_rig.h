// A restore's pipeline without coordinator and device, for measuring: the actors of a restore and
// of an eviction on threads placed as configured, and an actor that only counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/kv_shape.h"
#include "actors/messages.h"
#include "actors/threaded_dispatcher.h"
#include "engine/memory_swap.h"
#include "engine/profile.h"
#include "engine/swap_slots.h"
#include "engine/wiring_options.h"
#include "gpu/unit_memory.h"
#include "io/storage.h"
#include "mzcache/config.h"

namespace mzcache::engine {

// Adds up the processor time of decoding: the price a chunk has where device and decoder share
// cores. Thread-safe.
class TimedCodec final : public actors::KvCodec {
 public:
  explicit TimedCodec(std::shared_ptr<const actors::KvCodec> codec) : codec_(std::move(codec)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return codec_->name(); }
  [[nodiscard]] std::uint32_t version() const noexcept override { return codec_->version(); }
  [[nodiscard]] bool lossless() const noexcept override { return codec_->lossless(); }
  [[nodiscard]] std::uint64_t bound(const actors::ChunkLayout& layout,
                                    std::uint32_t tokens) const noexcept override {
    return codec_->bound(layout, tokens);
  }
  [[nodiscard]] std::uint64_t scratch_bytes(
      const actors::ChunkLayout& layout) const noexcept override {
    return codec_->scratch_bytes(layout);
  }
  [[nodiscard]] Result<std::uint64_t> encode(const actors::ChunkView& chunk,
                                             std::span<std::byte> out,
                                             std::span<std::byte> scratch) const override {
    return codec_->encode(chunk, out, scratch);
  }
  [[nodiscard]] Result<void> decode(std::span<const std::byte> encoded,
                                    const actors::MutableChunkView& chunk,
                                    std::span<std::byte> scratch) const override;

  [[nodiscard]] actors::Nanoseconds decode_cpu() const noexcept {
    return actors::Nanoseconds(decode_cpu_ns_.load());
  }

 private:
  std::shared_ptr<const actors::KvCodec> codec_;
  mutable std::atomic<std::int64_t> decode_cpu_ns_{0};
};

// What a round moved, and how long each stage had work.
struct Tally {
  std::uint64_t bytes_allocated = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_decoded = 0;
  actors::Nanoseconds allocate{0};
  actors::Nanoseconds read{0};
  actors::Nanoseconds decode{0};
  actors::Nanoseconds encode{0};
  actors::Nanoseconds elapsed{0};
  std::vector<actors::ChunkCompressed> compressed;
  std::vector<actors::ChunkWritten> written;
  std::size_t answers = 0;
  Error error;  // the first

  void fail(const Error& what) {
    if (error.code == ErrorCode::kOk) error = what;
  }
};

// The next round: the tally goes to `done` once so many answers have come. Messages that overtake
// this one count too.
struct Expect {
  std::size_t answers = 0;
  std::shared_ptr<std::promise<Tally>> done;
};

// Stands where the coordinator stands in a restore, and only counts.
class Counting {
 public:
  using Inbox = std::variant<Expect, actors::UnitsAllocated, actors::UnitReady, actors::UnitFailed,
                             actors::ChunkCompressed, actors::ChunkWritten, actors::UnitsReleased>;
  explicit Counting(actors::SharedMemory& memory) : memory_(memory) {}

  void on(Expect&& message) noexcept {
    expected_ = std::move(message);
    look();
  }
  void on(actors::UnitsAllocated&& message) noexcept {
    tally_.allocate += message.busy;
    for (const actors::UnitId unit : message.units)
      tally_.bytes_allocated += memory_.bytes(unit).size();
    if (message.error.code != ErrorCode::kOk) {  // nobody fills these
      tally_.fail(message.error);
      answered(message.units.size());
    }
    answered(message.units.size());
  }
  void on(actors::UnitReady&& message) noexcept {
    tally_.bytes_read += message.bytes_read;
    tally_.bytes_decoded += message.bytes_decoded;
    tally_.read += message.read;
    tally_.decode += message.decode;
    answered();
  }
  void on(actors::UnitFailed&& message) noexcept {
    tally_.fail(message.error);
    answered();
  }
  void on(actors::ChunkCompressed&& message) noexcept {
    tally_.fail(message.error);
    tally_.encode += message.busy;
    tally_.compressed.push_back(std::move(message));
    answered();
  }
  void on(actors::ChunkWritten&& message) noexcept {
    tally_.fail(message.error);
    tally_.written.push_back(std::move(message));
    answered();
  }
  void on(actors::UnitsReleased&& message) noexcept {
    static_cast<void>(message);
    answered();
  }

 private:
  void answered(std::size_t units = 1) noexcept {
    tally_.answers += units;
    look();
  }
  void look() noexcept {
    if (!expected_ || tally_.answers < expected_->answers) return;
    expected_->done->set_value(std::exchange(tally_, {}));
    expected_.reset();
  }

  actors::SharedMemory& memory_;
  std::optional<Expect> expected_;
  Tally tally_;
};

struct WeightUnit {
  actors::UnitId unit;
  std::vector<actors::FileRange> ranges;
};

// What is moved: some of the model's weights, and chunks of its shape.
struct Subject {
  static constexpr std::uint32_t kContext = 1;  // of the chunks

  std::string file;  // "": no weights
  gpu::UnitSizes sizes;
  actors::KvShape shape;
  std::vector<WeightUnit> weights;
  std::vector<std::vector<actors::UnitId>> chunks;  // runs of neighbours
};

// One owner thread.
class Rig {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Rig>> create(const Config& config,
                                                           gpu::Device& device, Subject subject);
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  // Encodes every chunk and writes it to the swap file; none is resident afterwards.
  [[nodiscard]] Result<void> put_chunks_out(Profile& profile);
  // A restore of these runs, then their release.
  [[nodiscard]] Result<Tally> restore(std::vector<actors::AllocateUnits> runs);

  [[nodiscard]] std::vector<actors::AllocateUnits> weight_runs() const;
  [[nodiscard]] std::vector<actors::AllocateUnits> chunk_runs(bool from_memory) const;
  // Whether the chunks could be written.
  [[nodiscard]] bool stored() const noexcept { return stored_; }
  [[nodiscard]] std::uint32_t allocators() const noexcept {
    return static_cast<std::uint32_t>(allocate_.size());
  }
  [[nodiscard]] std::uint32_t decoders() const noexcept {
    return static_cast<std::uint32_t>(decode_run_.size());
  }
  [[nodiscard]] const TimedCodec& codec() const noexcept { return *codec_; }
  [[nodiscard]] const actors::Clock& clock() const noexcept { return dispatcher_->clock(); }

 private:
  struct Chunk {
    MemorySwap::Slot slot;
    std::uint64_t compressed_checksum = 0;
    std::optional<std::uint64_t> stored_at;
    std::uint64_t stored_checksum = 0;
  };

  explicit Rig(Subject subject) : subject_(std::move(subject)) {}
  [[nodiscard]] Result<void> open(const Config& config, gpu::Device& device);
  void spawn(const actors::Placement& placement);
  // Sends, and waits for the answers.
  template <class Send>
  [[nodiscard]] Result<Tally> round(std::size_t answers, Send&& send);
  [[nodiscard]] Result<void> release(const std::vector<actors::UnitId>& units);
  [[nodiscard]] std::size_t allocator_of(actors::UnitId unit) const {
    return unit.layer % allocate_.size();
  }
  [[nodiscard]] std::vector<actors::UnitId> all_chunks() const;
  [[nodiscard]] Result<void> fill_chunks();
  [[nodiscard]] Result<void> encode_chunks(Profile& profile);
  void write_chunks(Profile& profile);

  Subject subject_;
  std::unique_ptr<gpu::UnitMemory> memory_;
  std::shared_ptr<io::StorageFiles> files_;
  std::unique_ptr<actors::BlockDevice> reads_;
  std::unique_ptr<actors::BlockDevice> writes_;
  std::unique_ptr<TimedCodec> codec_;
  std::unique_ptr<MemorySwap> swap_;
  std::unique_ptr<SwapSlots> slots_;
  std::map<actors::UnitId, Chunk> chunks_;
  bool stored_ = false;
  actors::Timeline timeline_;
  std::unique_ptr<actors::ThreadedDispatcher> dispatcher_;
  actors::Ref<Counting> counting_;
  std::vector<actors::Port<actors::AllocateUnits>> allocate_;
  std::vector<actors::Port<actors::AllocateUnits>> decode_run_;
  std::vector<actors::Port<actors::ReleaseUnits>> release_;
  std::vector<actors::Port<actors::CompressChunk>> compress_;
  actors::Port<actors::WriteChunk> write_;
};

[[nodiscard]] inline double seconds(actors::Nanoseconds time) {
  return static_cast<double>(time.count()) * 1e-9;
}
// Per second.
[[nodiscard]] inline double rate(std::uint64_t bytes, actors::Nanoseconds time) {
  return time.count() > 0 ? static_cast<double>(bytes) / seconds(time) : 0;
}

}  // namespace mzcache::engine
