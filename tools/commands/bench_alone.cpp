#include "commands/bench_alone.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "actors/checksum.h"
#include "actors/kv_shape.h"
#include "codec/half.h"
#include "codec/registry.h"
#include "engine/gguf.h"
#include "gpu/unit_memory_pages.h"
#include "io/storage.h"

namespace mzcache::tools {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

double ms_since(SteadyTime begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

void check(Result<void> result) {
  if (!result) throw Exception(std::move(result.error()));
}

gpu::PageReservation populated(std::uint64_t bytes) {
  auto memory = value_or_throw(gpu::PageReservation::create(bytes));
  check(gpu::populate_pages(memory.data(), memory.bytes(), true, {}));
  return memory;
}

// Values spread as keys and values are: what a codec does does not depend on more than that.
void fill_chunk(std::span<std::byte> chunk) {
  std::mt19937 random(1);  // NOLINT(*-msc51-cpp): the same values in every run
  std::normal_distribution<float> values;
  for (std::size_t at = 0; at + 2 <= chunk.size(); at += 2) {
    const std::uint16_t half = codec::float_to_half(values(random));
    std::memcpy(chunk.data() + at, &half, sizeof(half));
  }
}

}  // namespace

// ------------------------------------------------------------------ encoding

class EncodingAlone::State {
 public:
  State(const std::string& codec, const std::string& model_file)
      : codec_(value_or_throw(codec::make_codec(codec))) {
    const auto gguf = value_or_throw(engine::GgufFile::open(model_file));
    const auto model = value_or_throw(engine::describe_model(gguf));
    shape_ = actors::kv_shape(model);
    bound_ = actors::align_up(codec_->bound(shape_.layout, shape_.layout.tokens), 64);
    scratch_.resize(codec_->scratch_bytes(shape_.layout));
  }

  double run_ms(std::uint64_t raw_bytes) {
    const std::uint64_t chunk = shape_.layout.bytes();
    const std::uint64_t chunks = raw_bytes / chunk;
    if (chunks == 0) return 0;
    const gpu::PageReservation raw = populated(chunks * chunk);
    const gpu::PageReservation encoded = populated(chunks * bound_);
    fill_chunk({raw.data(), chunk});
    for (std::uint64_t i = 1; i < chunks; ++i) {
      std::memcpy(raw.data() + i * chunk, raw.data(), chunk);
    }
    const SteadyTime begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < chunks; ++i) {
      const std::span<std::byte> out(encoded.data() + i * bound_, bound_);
      const auto view = shape_.view<const std::byte>(actors::kv_unit(1, 0, 0), shape_.layout.tokens,
                                                     {raw.data() + i * chunk, chunk});
      const auto size = value_or_throw(codec_->encode(view, out, scratch_));
      checksum_ ^= actors::checksum(out.first(size));
    }
    return ms_since(begin);
  }

 private:
  std::shared_ptr<const actors::KvCodec> codec_;
  actors::KvShape shape_;
  std::uint64_t bound_ = 0;
  std::vector<std::byte> scratch_;
  std::uint64_t checksum_ = 0;
};

EncodingAlone::EncodingAlone(const std::string& codec, const std::string& model_file)
    : state_(std::make_unique<State>(codec, model_file)) {}
EncodingAlone::~EncodingAlone() = default;
double EncodingAlone::run_ms(std::uint64_t raw_bytes) { return state_->run_ms(raw_bytes); }

// ------------------------------------------------------------------ writing

class WritingAlone::State {
 public:
  explicit State(const Config& config) {
    options_.block = config.storage.block;
    options_.depth = config.storage.depth;
    options_.direct = config.storage.direct;
    options_.engine = config.storage.engine;
    options_.swap_directory = config.memory.swap_directory;
    files_ = value_or_throw(io::StorageFiles::open("", options_));
    device_ = value_or_throw(io::open_storage(files_, options_));
    buffer_.emplace(populated(options_.block));
    fill_chunk({buffer_->data(), options_.block});
  }

  double run_ms(std::uint64_t bytes) {
    if (bytes == 0) return 0;
    check(device_->grow(actors::FileId::kSwap, actors::align_up(bytes, actors::kBlockAlignment)));
    const SteadyTime begin = std::chrono::steady_clock::now();
    std::uint64_t next = 0;
    std::uint64_t written = 0;
    std::size_t in_flight = 0;
    while (written < bytes) {
      for (; next < bytes && in_flight < device_->depth(); ++in_flight) {
        const std::uint64_t step = std::min(options_.block, bytes - next);
        const std::uint64_t whole = actors::align_up(step, actors::kBlockAlignment);
        check(device_->submit({actors::BlockRequest::Operation::kWrite,
                               actors::FileId::kSwap,
                               next,
                               {buffer_->data(), whole},
                               step}));
        next += step;
      }
      device_->flush();
      device_->wait();
      reap(written, in_flight);
    }
    return ms_since(begin);
  }

 private:
  void reap(std::uint64_t& written, std::size_t& in_flight) {
    std::array<actors::BlockCompletion, 64> completions;
    for (std::size_t count = 0; (count = device_->reap(completions)) > 0;) {
      for (std::size_t i = 0; i < count; ++i) {
        if (completions[i].result < static_cast<std::int64_t>(completions[i].tag)) {
          throw Exception({ErrorCode::kIo, -std::min<std::int64_t>(completions[i].result, 0),
                           "write", device_->name(actors::FileId::kSwap)});
        }
        written += completions[i].tag;
        --in_flight;
      }
    }
  }

  io::StorageOptions options_;
  std::optional<gpu::PageReservation> buffer_;
  std::shared_ptr<io::StorageFiles> files_;
  std::unique_ptr<actors::BlockDevice> device_;  // ends before the buffer it reads from
};

WritingAlone::WritingAlone(const Config& config) : state_(std::make_unique<State>(config)) {}
WritingAlone::~WritingAlone() = default;
double WritingAlone::run_ms(std::uint64_t bytes) { return state_->run_ms(bytes); }

}  // namespace mzcache::tools
