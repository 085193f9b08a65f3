#include "commands/bench_rig.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <span>
#include <utility>

#include "actors/kv_shape.h"
#include "codec/q8.h"
#include "engine/gguf.h"
#include "engine/wiring_options.h"
#include "gpu/kernel_calls.h"

namespace mzcache::tools {
namespace {

constexpr std::uint32_t kSliceTokens = 512;
constexpr std::uint32_t kTokens = 512;  // different ones that are fed

void check(Result<void> result) {
  if (!result) throw Exception(std::move(result.error()));
}

double ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

class FileBytes {
 public:
  explicit FileBytes(const std::string& path) : path_(path), file_(path, std::ios::binary) {}
  void read(std::uint64_t offset, std::span<std::byte> to) {
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()));
    if (!file_) throw Exception({ErrorCode::kIo, errno, "read", path_});
  }

 private:
  std::string path_;
  std::ifstream file_;
};

// Halves between −2 and 2.
void fill_with_values(std::span<std::byte> bytes, std::uint64_t& state) {
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto draw = static_cast<std::uint32_t>(state >> 40);
    const std::uint32_t half =
        (draw & 0x8000U) | ((10U + (draw >> 16) % 6U) << 10) | (draw & 0x3FFU);
    bytes[i] = static_cast<std::byte>(half & 0xFFU);
    bytes[i + 1] = static_cast<std::byte>(half >> 8);
  }
}

// Positions that `tokens` queries from `first` on see, in sum.
double visible(std::uint32_t first, std::uint32_t tokens, std::uint32_t window) {
  double sum = 0;
  for (std::uint32_t t = 0; t < tokens; ++t) {
    const std::uint32_t all = first + t + 1;
    sum += window != 0 ? std::min(all, window) : all;
  }
  return sum;
}

}  // namespace

ComputeRig::ComputeRig(const Config& config, const std::string& model_file,
                       std::uint32_t context_tokens) {
  const auto gguf = value_or_throw(engine::GgufFile::open(model_file));
  model_ = value_or_throw(engine::describe_model(gguf));
  device_ = value_or_throw(gpu::Device::open(engine::to_device_options(config)));
  const bool int8 = value_or_throw(engine::activations_int8(config, device_->info()));
  kernels_ = value_or_throw(gpu::load_kernels(*device_, gpu::needs_of(model_, int8), {}));
  gpu::UnitMemory::Options memory_options;
  memory_options.huge_pages = config.memory.huge_pages;
  memory_ =
      value_or_throw(gpu::UnitMemory::create(*device_, engine::unit_sizes(model_), memory_options));
  load_weights();
  fill_context(context_tokens);
  load_tokens();
  queue_ = value_or_throw(gpu::create_compute_queue(*device_, kernels_, *memory_, model_,
                                                    {kSliceTokens, context_tokens}));
  queue_->set_listener([this](const actors::ComputeCompletion& completion) {
    const std::lock_guard lock(mutex_);
    completed_ = completion.ticket;
    error_ = completion.error;
    arrived_.notify_all();
  });
}

ComputeRig::~ComputeRig() { queue_.reset(); }

void ComputeRig::load_weights() {
  FileBytes file(model_.file);
  for (std::uint32_t i = 0; i <= model_.layers; ++i) {
    const bool head = i == model_.layers;
    const auto unit = head ? actors::head_unit(i) : actors::weights_unit(i);
    check(memory_->populate(std::span(&unit, 1)));
    const auto bytes = memory_->bytes(unit);
    for (const auto& range : head ? model_.head.ranges : model_.layer[i].ranges) {
      file.read(range.file_offset, bytes.subspan(range.buffer_offset, range.bytes));
    }
    memory_->end_host_access(unit);
  }
}

void ComputeRig::fill_context(std::uint32_t tokens) {
  chunks_ = (tokens + actors::kChunkTokens - 1) / actors::kChunkTokens;
  check(memory_->open_context(0, chunks_));
  std::uint64_t state = 1;
  std::vector<std::byte> values(model_.chunk_bytes());
  fill_with_values(values, state);
  for (std::uint32_t layer = 0; layer < model_.layers; ++layer) {
    for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk) {
      const auto unit = actors::kv_unit(0, layer, chunk);
      check(memory_->populate(std::span(&unit, 1)));
      std::memcpy(memory_->bytes(unit).data(), values.data(), values.size());
      memory_->end_host_access(unit);
    }
  }
}

void ComputeRig::load_tokens() {
  FileBytes file(model_.file);
  const auto& embedding = model_.embedding;
  rows_.resize(embedding.row_bytes * kTokens);
  std::uint64_t state = 2;
  for (std::uint32_t i = 0; i < kTokens; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::uint64_t token = (state >> 33) % embedding.rows;
    file.read(embedding.file_offset + token * embedding.row_bytes,
              std::span(rows_).subspan(i * embedding.row_bytes, embedding.row_bytes));
  }
}

void ComputeRig::slice(std::uint32_t first, std::uint32_t tokens, bool last) {
  actors::ComputeSlice slice;
  slice.first_position = first;
  slice.token_count = tokens;
  for (std::uint32_t i = 0; i < tokens; ++i) {
    slice.embedding_rows.push_back(rows_.data() +
                                   (first + i) % kTokens * model_.embedding.row_bytes);
  }
  if (last) slice.logit_rows = {tokens - 1};
  slice.undisturbed = true;
  check(queue_->begin_slice(slice));
  for (std::uint32_t layer = 0; layer < model_.layers; ++layer) {
    check(queue_->enqueue_layer(layer, actors::LayerStage::kProject, 0));
    check(queue_->enqueue_layer(layer, actors::LayerStage::kAttend, 0));
  }
  check(queue_->enqueue_head(++ticket_));
  queue_->flush();
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return completed_ == ticket_; });
  if (error_.code != ErrorCode::kOk) throw Exception(error_);
}

double ComputeRig::run_ms(std::uint32_t first, std::uint32_t tokens) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t done = 0; done < tokens;) {
    const std::uint32_t count = std::min(kSliceTokens, tokens - done);
    slice(first + done, count, done + count == tokens);
    done += count;
  }
  return ms_since(begin);
}

void ComputeRig::encode_chunks(std::uint32_t count) {
  if (!queue_->reads_encoded()) {
    throw Exception({ErrorCode::kUnsupported, 0, "--encoded",
                     "needs the cpu kernels, and " + device_->info().name + " gets the " +
                         device_->info().kernels + " ones"});
  }
  const actors::KvShape shape = actors::kv_shape(model_);
  const codec::Q8Codec codec;
  while (encoded_.size() < count) {
    const auto unit = actors::kv_unit(0, 0, static_cast<std::uint32_t>(encoded_.size()));
    const auto view = shape.view<const std::byte>(unit, shape.layout.tokens, memory_->bytes(unit));
    std::vector<std::byte> bytes(codec.bound(shape.layout, shape.layout.tokens));
    bytes.resize(value_or_throw(codec.encode(view, bytes, {})));
    encoded_.push_back(std::move(bytes));
  }
}

// Where the first layer's chunks lie, the first `encoded` of them in that form.
std::vector<std::uint64_t> ComputeRig::table(std::uint32_t encoded) const {
  const codec::Q8Codec codec;
  const actors::ChunkLayout layout = model_.chunk_layout();
  std::vector<std::uint64_t> entries;
  entries.reserve(chunks_);
  for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk) {
    entries.push_back(chunk < encoded
                          ? gpu::table_entry(codec.in_place(encoded_[chunk], layout, layout.tokens))
                          : gpu::table_entry(memory_->address(actors::kv_unit(0, 0, chunk))));
  }
  return entries;
}

double ComputeRig::attention_ms(std::uint32_t first, std::uint32_t tokens, bool encoded) {
  const std::uint32_t full = encoded ? first / model_.chunk_tokens : 0;
  encode_chunks(full);
  const gpu::AttentionShape shape = gpu::attention_shape(model_, model_.layer[0], first, tokens);
  const auto stop = value_or_throw(gpu::StopFlag::create(*device_));
  const auto calls = value_or_throw(gpu::KernelCalls::create(*device_, kernels_, *stop));
  const std::uint64_t values = std::uint64_t{tokens} * model_.heads * model_.head_dim;
  std::array<gpu::ScratchBuffer, 5> buffers;
  auto& [query, out, partial, weights, table_buffer] = buffers;
  check(query.resize(*device_, values * sizeof(float)));
  check(out.resize(*device_, values * sizeof(float)));
  check(partial.resize(*device_, values * sizeof(float) * shape.ranges));
  check(weights.resize(*device_, values / model_.head_dim * 8 * shape.ranges));
  check(table_buffer.resize(*device_, chunks_ * sizeof(std::uint64_t)));
  std::vector<float> random(values);
  for (std::size_t i = 0; i < values; ++i) random[i] = static_cast<float>(i * 37 % 64) / 32 - 1;
  check(query.upload(*device_, 0, std::as_bytes(std::span(random))));
  const gpu::DeviceChunks chunks{memory_->address(actors::kv_unit(0, 0, 0)), &table_buffer, 0,
                                 full > 0};
  const std::vector<std::uint64_t> entries = table(full);
  check(table_buffer.upload(*device_, 0, std::as_bytes(std::span(entries))));
  calls->declare_pointers(memory_->reachable_pointers());
  (void)device_->queue().finish();
  const auto begin = std::chrono::steady_clock::now();
  calls->attention(query, out, partial, weights, chunks, shape);
  check(calls->take_status());
  (void)device_->queue().finish();
  return ms_since(begin);
}

Work ComputeRig::attention_work(std::uint32_t first, std::uint32_t tokens, bool encoded) const {
  const std::uint32_t window = model_.layer[0].window;
  const double width = double{1} * model_.heads * model_.head_dim;
  const double kv_width = double{1} * model_.kv_heads * model_.head_dim;
  const double seen = visible(first, tokens, window);
  const double positions = window != 0 ? std::min(first + tokens, window + tokens) : first + tokens;
  // 8 bits a value and two FP16 parameters per 64 of them.
  const double value_bytes = encoded ? 1 + 4.0 / 64 : 2;
  return {4 * width * seen, positions * kv_width * 2 * value_bytes};
}

Work ComputeRig::work(std::uint32_t first, std::uint32_t tokens) const {
  Work work;
  for (const auto& layer : model_.layer) {
    for (const auto& tensor : layer.tensors) {
      if (tensor.rows > 1) work.operations += 2.0 * tensor.rows * tensor.columns * tokens;
    }
    const double width = double{1} * model_.heads * model_.head_dim;
    work.operations += 4 * width * visible(first, tokens, layer.window);
    const std::uint32_t context = first + tokens;
    const std::uint32_t seen =
        layer.window != 0 ? std::min(context, layer.window + tokens) : context;
    work.bytes += double{4} * seen * model_.kv_heads * model_.head_dim;
  }
  const auto& output = model_.head.output;
  work.operations += 2.0 * output.rows * output.columns;
  const std::uint32_t slices = (tokens + kSliceTokens - 1) / kSliceTokens;
  work.bytes += slices * static_cast<double>(model_.weights_bytes());
  return work;
}

}  // namespace mzcache::tools
