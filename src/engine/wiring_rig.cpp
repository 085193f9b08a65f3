#include "engine/wiring_rig.h"

#include <algorithm>
#include <ctime>

#include "actors/allocator.h"
#include "actors/compressor.h"
#include "actors/decompressor.h"
#include "actors/storage_reader.h"
#include "actors/storage_writer.h"
#include "codec/registry.h"

namespace mzcache::engine {
namespace {

using actors::Nanoseconds;
using actors::UnitId;

constexpr std::uint32_t kContext = Subject::kContext;
// After this long something hangs.
constexpr auto kPatience = std::chrono::seconds(60);

std::int64_t thread_cpu_ns() noexcept {
  timespec now = {};
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
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

}  // namespace

Result<void> TimedCodec::decode(std::span<const std::byte> encoded,
                                const actors::MutableChunkView& chunk,
                                std::span<std::byte> scratch) const {
  const std::int64_t begin = thread_cpu_ns();
  Result<void> decoded = codec_->decode(encoded, chunk, scratch);
  decode_cpu_ns_ += thread_cpu_ns() - begin;
  return decoded;
}

Rig::~Rig() {
  if (dispatcher_ != nullptr) dispatcher_->stop();
  if (memory_ != nullptr) memory_->close_context(kContext);
}

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
  counting_ = dispatcher_->spawn<Counting>({ActorKind::kCoordinator, "counting"}, *memory_);
  const auto reader = dispatcher_->spawn<actors::StorageReader>(
      {ActorKind::kStorageReader, "storage-reader"}, *reads_, *memory_, shape, clock, timeline_,
      "reads in flight");
  const auto writer = dispatcher_->spawn<actors::StorageWriter>(
      {ActorKind::kStorageWriter, "storage-writer"}, *writes_, *memory_, shape, clock, timeline_,
      "writes in flight");
  const auto ready = counting_.port<actors::UnitReady>();
  const auto failed = counting_.port<actors::UnitFailed>();
  std::vector<actors::Port<actors::DecodeChunk>> decode;
  const auto allocated = counting_.port<actors::UnitsAllocated>();
  for (std::uint32_t i = 0; i < worker_count(placement, ActorKind::kDecompressor); ++i) {
    const auto decompressor = dispatcher_->spawn<actors::Decompressor>(
        {ActorKind::kDecompressor, "decompress-" + std::to_string(i)}, *memory_,
        actors::TierCodecs{codec_.get(), nullptr}, shape, clock);
    decompressor.actor->connect({allocated, ready, failed});
    decode.push_back(decompressor.port<actors::DecodeChunk>());
    decode_run_.push_back(decompressor.port<actors::AllocateUnits>());
  }
  for (std::uint32_t i = 0; i < worker_count(placement, ActorKind::kAllocator); ++i) {
    const auto allocator = dispatcher_->spawn<actors::Allocator>(
        {ActorKind::kAllocator, "allocator-" + std::to_string(i)}, *memory_, clock);
    allocator.actor->connect({reader.port<actors::ReadUnit>(), decode, allocated, ready,
                              counting_.port<actors::UnitsReleased>()});
    allocate_.push_back(allocator.port<actors::AllocateUnits>());
    release_.push_back(allocator.port<actors::ReleaseUnits>());
  }
  for (std::uint32_t i = 0; i < worker_count(placement, ActorKind::kCompressor); ++i) {
    const auto compressor = dispatcher_->spawn<actors::Compressor>(
        {ActorKind::kCompressor, "compress-" + std::to_string(i)}, *memory_,
        actors::TierCodecs{codec_.get(), nullptr}, shape, clock);
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
  std::size_t next_decoder = 0;
  Result<Tally> tally = round(2 * units.size(), [&] {
    for (auto& run : runs) {
      const bool decoded = std::holds_alternative<actors::MemoryOrigin>(run.origins.front());
      auto& port = decoded ? decode_run_[next_decoder++ % decode_run_.size()]
                           : allocate_[allocator_of(run.units.front())];
      port.send(std::move(run));
    }
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
  const Result<Tally> fresh = round(2 * all_chunks().size(), [&] {
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
      write_.send(
          actors::WriteChunk{unit, {}, 0, *chunks_[unit].stored_at, slots_->file_bytes(), {}});
    }
  });
  if (!written || written->error.code != ErrorCode::kOk) return;
  for (const auto& done : written->written) chunks_[done.unit].stored_checksum = done.checksum;
  stored_ = true;
  profile.write_bytes_per_s = rate(units.size() * subject_.sizes.chunk_bytes, written->elapsed);
}

}  // namespace mzcache::engine
