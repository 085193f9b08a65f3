#include "engine/wiring_measure.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/allocator.h"
#include "actors/compressor.h"
#include "actors/decompressor.h"
#include "actors/storage_reader.h"
#include "actors/storage_writer.h"
#include "actors/threaded_dispatcher.h"
#include "codec/registry.h"
#include "engine/memory_swap.h"
#include "engine/swap_slots.h"
#include "engine/wiring_options.h"
#include "io/storage.h"

namespace mzcache::engine {
namespace {

using actors::Nanoseconds;
using actors::UnitId;

// Rounds of each kind, the median of which counts; fewer where they take longer than this in sum.
constexpr int kRounds = 5;
constexpr Nanoseconds kRoundsLimit = std::chrono::milliseconds(500);
// Raw bytes of chunks, and bytes of weights (at least one unit), moved in a round.
constexpr std::uint64_t kChunkBytesTotal = std::uint64_t{32} << 20;
constexpr std::uint64_t kWeightBytesTotal = std::uint64_t{48} << 20;
// Neighbouring chunks that are allocated at once, as the coordinator does.
constexpr std::uint64_t kRunBytes = std::uint64_t{8} << 20;
constexpr std::uint32_t kRunChunksMax = 8;
constexpr std::uint32_t kContext = 1;
// After this long something hangs.
constexpr auto kPatience = std::chrono::seconds(60);

double seconds(Nanoseconds time) { return static_cast<double>(time.count()) * 1e-9; }
double rate(std::uint64_t bytes, Nanoseconds time) {
  return time.count() > 0 ? static_cast<double>(bytes) / seconds(time) : 0;
}

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
                                    std::span<std::byte> scratch) const override {
    const std::int64_t begin = thread_cpu_ns();
    Result<void> decoded = codec_->decode(encoded, chunk, scratch);
    decode_cpu_ns_ += thread_cpu_ns() - begin;
    return decoded;
  }

  [[nodiscard]] Nanoseconds decode_cpu() const noexcept {
    return Nanoseconds(decode_cpu_ns_.load());
  }

 private:
  static std::int64_t thread_cpu_ns() noexcept {
    timespec now = {};
    if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }

  std::shared_ptr<const actors::KvCodec> codec_;
  mutable std::atomic<std::int64_t> decode_cpu_ns_{0};
};

// What a round moved, and how long each stage had work.
struct Tally {
  std::uint64_t bytes_allocated = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_decoded = 0;
  Nanoseconds allocate{0};
  Nanoseconds read{0};
  Nanoseconds decode{0};
  Nanoseconds encode{0};
  Nanoseconds elapsed{0};
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
    for (const UnitId unit : message.units) tally_.bytes_allocated += memory_.bytes(unit).size();
    if (message.error.code != ErrorCode::kOk) {  // nobody fills these
      tally_.fail(message.error);
      tally_.answers += message.units.size();
    }
    answered();
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
  void answered() noexcept {
    ++tally_.answers;
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
  UnitId unit;
  std::vector<actors::FileRange> ranges;
};

// What is moved: some of the model's weights, and chunks of its shape.
struct Subject {
  std::string file;  // "": no weights
  gpu::UnitSizes sizes;
  actors::KvShape shape;
  std::vector<WeightUnit> weights;
  std::vector<std::vector<UnitId>> chunks;  // runs of neighbours
};

Subject make_subject(const actors::ModelDescription* model) {
  Subject subject;
  std::uint32_t layers = 4;
  if (model != nullptr) {
    layers = model->layers;
    subject.file = model->file;
    subject.sizes = unit_sizes(*model);
    subject.shape = {model->chunk_layout(), model->rope};
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < layers && (i == 0 || bytes < kWeightBytesTotal); ++i) {
      subject.weights.push_back({actors::weights_unit(i), model->layer[i].ranges});
      bytes += model->layer[i].unit_bytes;
    }
  } else {
    subject.shape.layout = {actors::ChunkLayout::Order::kTiled, 8, 128, actors::kChunkTokens};
    subject.sizes.weights_bytes.assign(layers, actors::kBlockAlignment);
    subject.sizes.head_bytes = actors::kBlockAlignment;
    subject.sizes.chunk_bytes = subject.shape.layout.bytes();
  }
  const std::uint64_t chunk_bytes = subject.sizes.chunk_bytes;
  const auto run = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(kRunBytes / chunk_bytes, 1, kRunChunksMax));
  std::uint64_t bytes = 0;
  for (std::uint32_t layer = 0; layer < layers && bytes < kChunkBytesTotal; ++layer) {
    std::vector<UnitId> neighbours;
    for (std::uint32_t chunk = 0; chunk < run; ++chunk) {
      neighbours.push_back(actors::kv_unit(kContext, layer, chunk));
    }
    bytes += run * chunk_bytes;
    subject.chunks.push_back(std::move(neighbours));
  }
  return subject;
}

// Halves of the size that keys and values have, none of them special. What a codec's speed depends
// on is seldom the values, but it may be that all are alike.
void fill_with_values(std::span<std::byte> bytes, std::uint64_t& state) {
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto draw = static_cast<std::uint32_t>(state >> 40);
    // Sign, an exponent of 2^-5 … 2^2, ten bits of mantissa.
    const std::uint32_t half =
        (draw & 0x8000U) | ((10U + (draw >> 16) % 8U) << 10) | (draw & 0x3FFU);
    bytes[i] = static_cast<std::byte>(half & 0xFFU);
    bytes[i + 1] = static_cast<std::byte>(half >> 8);
  }
}

struct Chunk {
  MemorySwap::Slot slot;
  std::uint64_t compressed_checksum = 0;
  std::optional<std::uint64_t> stored_at;
  std::uint64_t stored_checksum = 0;
};

// A restore's pipeline without coordinator and device. One owner thread.
class Rig {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Rig>> create(const Config& config,
                                                           gpu::Device& device, Subject subject);
  ~Rig() {
    if (dispatcher_ != nullptr) dispatcher_->stop();
    if (memory_ != nullptr) memory_->close_context(kContext);
  }
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
  [[nodiscard]] std::uint32_t decoders() const noexcept { return decoders_; }
  [[nodiscard]] const TimedCodec& codec() const noexcept { return *codec_; }
  [[nodiscard]] const actors::Clock& clock() const noexcept { return dispatcher_->clock(); }

 private:
  explicit Rig(Subject subject) : subject_(std::move(subject)) {}
  [[nodiscard]] Result<void> open(const Config& config, gpu::Device& device);
  void spawn(const actors::Placement& placement);
  // Sends, and waits for the answers.
  template <class Send>
  [[nodiscard]] Result<Tally> round(std::size_t answers, Send&& send);
  [[nodiscard]] Result<void> release(const std::vector<UnitId>& units);
  [[nodiscard]] std::size_t allocator_of(UnitId unit) const {
    return unit.layer % allocate_.size();
  }
  [[nodiscard]] std::vector<UnitId> all_chunks() const;
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
  std::map<UnitId, Chunk> chunks_;
  bool stored_ = false;
  actors::Timeline timeline_;
  std::unique_ptr<actors::ThreadedDispatcher> dispatcher_;
  actors::Ref<Counting> counting_;
  std::vector<actors::Port<actors::AllocateUnits>> allocate_;
  std::vector<actors::Port<actors::ReleaseUnits>> release_;
  std::vector<actors::Port<actors::CompressChunk>> compress_;
  actors::Port<actors::WriteChunk> write_;
  std::uint32_t decoders_ = 0;
};

Result<std::unique_ptr<Rig>> Rig::create(const Config& config, gpu::Device& device,
                                         Subject subject) {
  std::unique_ptr<Rig> rig(new Rig(std::move(subject)));
  if (Result<void> opened = rig->open(config, device); !opened) return opened.error();
  return rig;
}

Result<void> Rig::open(const Config& config, gpu::Device& device) {
  Result<std::shared_ptr<const actors::KvCodec>> codec = codec::make_codec(config.memory.codec);
  if (!codec) return codec.error();
  codec_ = std::make_unique<TimedCodec>(std::move(*codec));
  // Fallbacks were, or will be, told by whoever opens the same files for work.
  const io::StorageOptions storage = to_storage_options(config, {});
  Result<std::shared_ptr<io::StorageFiles>> files = io::StorageFiles::open(subject_.file, storage);
  if (!files) return files.error();
  files_ = std::move(*files);
  for (auto* opened : {&reads_, &writes_}) {
    Result<std::unique_ptr<actors::BlockDevice>> queue = io::open_storage(files_, storage);
    if (!queue) return queue.error();
    *opened = std::move(*queue);
  }
  gpu::UnitMemory::Options memory_options;
  memory_options.huge_pages = config.memory.huge_pages;
  Result<std::unique_ptr<gpu::UnitMemory>> memory =
      gpu::UnitMemory::create(device, subject_.sizes, memory_options);
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  const auto run = static_cast<std::uint32_t>(subject_.chunks.front().size());
  if (Result<void> opened = memory_->open_context(kContext, run); !opened) return opened;
  swap_ = std::make_unique<MemorySwap>(*memory_);
  slots_ = std::make_unique<SwapSlots>(config.memory.swap_file_max);
  const std::uint64_t encoded_max =
      codec_->bound(subject_.shape.layout, subject_.shape.layout.tokens) + 64;
  const std::uint64_t range = encoded_max * all_chunks().size() + 2 * actors::kSegmentBytes;
  if (Result<void> reserved = swap_->reserve(range); !reserved) return reserved;
  Result<actors::CpuTopology> topology = actors::this_topology();
  if (!topology) return topology.error();
  const actors::Placement placement = to_placement(config.placement);
  try {
    dispatcher_ =
        std::make_unique<actors::ThreadedDispatcher>(placement, std::move(*topology), timeline_);
    spawn(placement);
    dispatcher_->start();
  } catch (const Exception& exception) {
    return exception.error();
  }
  return {};
}

// The arrows of pipeline.h, with Counting in the coordinator's place.
void Rig::spawn(const actors::Placement& placement) {
  using actors::ActorKind;
  const actors::Clock& clock = dispatcher_->clock();
  const actors::KvShape& shape = subject_.shape;
  const std::uint64_t encoded_max = codec_->bound(shape.layout, shape.layout.tokens);
  counting_ = dispatcher_->spawn<Counting>({ActorKind::kCoordinator, "counting"}, *memory_);
  const auto reader = dispatcher_->spawn<actors::StorageReader>(
      {ActorKind::kStorageReader, "storage-reader"}, *reads_, *memory_, shape, encoded_max, clock,
      timeline_, "reads in flight");
  const auto writer = dispatcher_->spawn<actors::StorageWriter>(
      {ActorKind::kStorageWriter, "storage-writer"}, *writes_, *memory_, shape, encoded_max, clock,
      timeline_, "writes in flight");
  const auto ready = counting_.port<actors::UnitReady>();
  const auto failed = counting_.port<actors::UnitFailed>();
  std::vector<actors::Port<actors::DecodeChunk>> decode;
  decoders_ = worker_count(placement, ActorKind::kDecompressor);
  for (std::uint32_t i = 0; i < decoders_; ++i) {
    const auto decompressor = dispatcher_->spawn<actors::Decompressor>(
        {ActorKind::kDecompressor, "decompress-" + std::to_string(i)}, *memory_, *codec_, shape,
        clock);
    decompressor.actor->connect({ready, failed});
    decode.push_back(decompressor.port<actors::DecodeChunk>());
  }
  for (std::uint32_t i = 0; i < worker_count(placement, ActorKind::kAllocator); ++i) {
    const auto allocator = dispatcher_->spawn<actors::Allocator>(
        {ActorKind::kAllocator, "allocator-" + std::to_string(i)}, *memory_, clock);
    allocator.actor->connect({reader.port<actors::ReadUnit>(), decode,
                              counting_.port<actors::UnitsAllocated>(), ready,
                              counting_.port<actors::UnitsReleased>()});
    allocate_.push_back(allocator.port<actors::AllocateUnits>());
    release_.push_back(allocator.port<actors::ReleaseUnits>());
  }
  for (std::uint32_t i = 0; i < worker_count(placement, ActorKind::kCompressor); ++i) {
    const auto compressor = dispatcher_->spawn<actors::Compressor>(
        {ActorKind::kCompressor, "compress-" + std::to_string(i)}, *memory_, *codec_, shape, clock);
    compressor.actor->connect({counting_.port<actors::ChunkCompressed>()});
    compress_.push_back(compressor.port<actors::CompressChunk>());
  }
  reader.actor->connect({decode, ready, failed, {}});
  writer.actor->connect({counting_.port<actors::ChunkWritten>()});
  write_ = writer.port<actors::WriteChunk>();
}

template <class Send>
Result<Tally> Rig::round(std::size_t answers, Send&& send) {
  auto done = std::make_shared<std::promise<Tally>>();
  std::future<Tally> answer = done->get_future();
  const Nanoseconds begin = clock().now();
  counting_.address->post(Expect{answers, std::move(done)});
  send();
  if (answer.wait_for(kPatience) != std::future_status::ready) {
    return Error{ErrorCode::kIo, 0, "measure", "no answer from storage or decoder within a minute"};
  }
  Tally tally = answer.get();
  tally.elapsed = clock().now() - begin;
  return tally;
}

Result<void> Rig::release(const std::vector<UnitId>& units) {
  std::vector<actors::ReleaseUnits> parts(release_.size());
  for (const UnitId unit : units) parts[allocator_of(unit)].units.push_back(unit);
  const auto used = static_cast<std::size_t>(std::count_if(
      parts.begin(), parts.end(), [](const auto& part) { return !part.units.empty(); }));
  const Result<Tally> released = round(used, [&] {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].units.empty()) release_[i].send(std::move(parts[i]));
    }
  });
  return released ? Result<void>() : Result<void>(released.error());
}

Result<Tally> Rig::restore(std::vector<actors::AllocateUnits> runs) {
  std::vector<UnitId> units;
  for (const auto& run : runs) units.insert(units.end(), run.units.begin(), run.units.end());
  Result<Tally> tally = round(runs.size() + units.size(), [&] {
    for (auto& run : runs) allocate_[allocator_of(run.units.front())].send(std::move(run));
  });
  if (!tally) return tally;
  if (tally->error.code != ErrorCode::kOk) return tally->error;
  if (Result<void> released = release(units); !released) return released.error();
  return tally;
}

std::vector<UnitId> Rig::all_chunks() const {
  std::vector<UnitId> units;
  for (const auto& run : subject_.chunks) units.insert(units.end(), run.begin(), run.end());
  return units;
}

std::vector<actors::AllocateUnits> Rig::weight_runs() const {
  std::vector<actors::AllocateUnits> runs;
  for (const WeightUnit& weights : subject_.weights) {
    actors::AllocateUnits run;
    run.units.push_back(weights.unit);
    run.origins.emplace_back(actors::FileOrigin{weights.ranges, std::nullopt});
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<actors::AllocateUnits> Rig::chunk_runs(bool from_memory) const {
  std::vector<actors::AllocateUnits> runs;
  for (const auto& units : subject_.chunks) {
    actors::AllocateUnits run;
    run.units = units;
    for (const UnitId unit : units) {
      const Chunk& chunk = chunks_.at(unit);
      if (from_memory) {
        run.origins.emplace_back(actors::MemoryOrigin{
            swap_->bytes(chunk.slot), chunk.compressed_checksum, subject_.shape.layout.tokens});
      } else {
        const actors::FileRange range{actors::FileId::kSwap, *chunk.stored_at, 0,
                                      subject_.sizes.chunk_bytes};
        run.origins.emplace_back(actors::FileOrigin{{range}, chunk.stored_checksum});
      }
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

Result<void> Rig::put_chunks_out(Profile& profile) {
  if (Result<void> filled = fill_chunks(); !filled) return filled;
  if (Result<void> encoded = encode_chunks(profile); !encoded) return encoded;
  write_chunks(profile);
  return release(all_chunks());
}

Result<void> Rig::fill_chunks() {
  const Result<Tally> fresh = round(subject_.chunks.size() + all_chunks().size(), [&] {
    for (const auto& units : subject_.chunks) {
      actors::AllocateUnits run{units, std::vector<actors::Origin>(units.size())};
      allocate_[allocator_of(units.front())].send(std::move(run));
    }
  });
  if (!fresh) return fresh.error();
  if (fresh->error.code != ErrorCode::kOk) return fresh->error;
  std::uint64_t state = 1;
  for (const UnitId unit : all_chunks()) {
    memory_->begin_host_access(unit);
    fill_with_values(memory_->bytes(unit).first(subject_.shape.layout.bytes()), state);
    memory_->end_host_access(unit);
  }
  return {};
}

Result<void> Rig::encode_chunks(Profile& profile) {
  const std::uint32_t tokens = subject_.shape.layout.tokens;
  std::vector<UnitId> units = all_chunks();
  for (const UnitId unit : units) {
    Result<MemorySwap::Slot> slot = swap_->push(codec_->bound(subject_.shape.layout, tokens));
    if (!slot) return slot.error();
    chunks_[unit].slot = *slot;
  }
  const Result<Tally> encoded = round(units.size(), [&] {
    for (std::size_t i = 0; i < units.size(); ++i) {
      compress_[i % compress_.size()].send(
          actors::CompressChunk{units[i], tokens, swap_->bytes(chunks_[units[i]].slot)});
    }
  });
  if (!encoded) return encoded.error();
  if (encoded->error.code != ErrorCode::kOk) return encoded->error;
  for (const auto& done : encoded->compressed) {
    Chunk& chunk = chunks_[done.unit];
    swap_->shrink(chunk.slot, done.encoded_bytes);
    chunk.compressed_checksum = done.checksum;
  }
  profile.encode_bytes_per_s = rate(units.size() * subject_.sizes.chunk_bytes, encoded->encode) *
                               static_cast<double>(compress_.size());
  return {};
}

// A swap file that is not to be had (no room, no directory) is no reason not to measure the rest.
void Rig::write_chunks(Profile& profile) {
  std::vector<UnitId> units = all_chunks();
  for (const UnitId unit : units) {
    chunks_[unit].stored_at = slots_->allocate(subject_.sizes.chunk_bytes);
    if (!chunks_[unit].stored_at) return;
  }
  const Result<Tally> written = round(units.size(), [&] {
    for (const UnitId unit : units) {
      write_.send(actors::WriteChunk{unit, {}, *chunks_[unit].stored_at, slots_->file_bytes()});
    }
  });
  if (!written || written->error.code != ErrorCode::kOk) return;
  for (const auto& done : written->written) chunks_[done.unit].stored_checksum = done.checksum;
  stored_ = true;
  profile.write_bytes_per_s = rate(units.size() * subject_.sizes.chunk_bytes, written->elapsed);
}

// The tallies of some rounds; at least one.
Result<std::vector<Tally>> repeat(Rig& rig,
                                  std::vector<actors::AllocateUnits> (*runs)(const Rig&)) {
  std::vector<Tally> tallies;
  const Nanoseconds begin = rig.clock().now();
  for (int i = 0; i < kRounds; ++i) {
    Result<Tally> tally = rig.restore(runs(rig));
    if (!tally) return tally.error();
    tallies.push_back(std::move(*tally));
    if (rig.clock().now() - begin > kRoundsLimit) break;
  }
  return tallies;
}

template <class Value>
double median_of(const std::vector<Tally>& tallies, Value&& value) {
  std::deque<double> values;
  for (const Tally& tally : tallies) values.push_back(value(tally));
  return median(std::move(values));
}
double median_read(const std::vector<Tally>& tallies) {
  return median_of(tallies, [](const Tally& t) { return rate(t.bytes_read, t.read); });
}

// Weights and stored chunks come back through one reader: its rate where it reads as many bytes of
// the one as of the other, or of the one that is known.
double both_rates(double a, double b) {
  if (a <= 0 || b <= 0) return std::max(a, b);
  return 2 / (1 / a + 1 / b);
}

}  // namespace

Result<Profile> measure_rates(const Config& config, gpu::Device& device,
                              const actors::ModelDescription* model) {
  Result<std::unique_ptr<Rig>> created = Rig::create(config, device, make_subject(model));
  if (!created) return created.error();
  Rig& rig = **created;
  const Nanoseconds begin = rig.clock().now();
  Profile profile;
  if (Result<void> out = rig.put_chunks_out(profile); !out) return out.error();

  const auto decoded = repeat(rig, [](const Rig& r) { return r.chunk_runs(true); });
  if (!decoded) return decoded.error();
  std::vector<Tally> all = *decoded;
  std::uint64_t bytes_decoded = 0;
  for (const Tally& tally : *decoded) bytes_decoded += tally.bytes_decoded;
  profile.decode_cpu_s_per_byte = seconds(rig.codec().decode_cpu()) /
                                  static_cast<double>(std::max<std::uint64_t>(1, bytes_decoded));
  profile.alone.decode =
      median_of(*decoded, [](const Tally& t) { return rate(t.bytes_decoded, t.decode); }) *
      rig.decoders();

  if (rig.stored()) {
    const auto swap = repeat(rig, [](const Rig& r) { return r.chunk_runs(false); });
    if (!swap) return swap.error();
    profile.swap_read_bytes_per_s = median_read(*swap);
    all.insert(all.end(), swap->begin(), swap->end());
  }
  if (model != nullptr) {
    const auto weights = repeat(rig, [](const Rig& r) { return r.weight_runs(); });
    if (!weights) return weights.error();
    profile.model_read_bytes_per_s = median_read(*weights);
    all.insert(all.end(), weights->begin(), weights->end());
  }
  profile.alone.read = both_rates(profile.model_read_bytes_per_s, profile.swap_read_bytes_per_s);
  if (profile.alone.read <= 0) {
    return Error{ErrorCode::kNoSpace, 0, "measure",
                 "no swap file in " + config.memory.swap_directory + ", and no model to read"};
  }
  profile.alone.allocate =
      median_of(all, [](const Tally& t) { return rate(t.bytes_allocated, t.allocate); }) *
      rig.allocators();
  profile.measure_s = seconds(rig.clock().now() - begin);
  return profile;
}

}  // namespace mzcache::engine
