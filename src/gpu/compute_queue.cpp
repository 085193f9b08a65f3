#include "gpu/compute_queue.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <utility>

#include "gpu/completion_order.h"
#include "gpu/kernel_calls.h"
#include "gpu/layer_recipe.h"
#include "gpu/rope_angles.h"
#include "gpu/scratch.h"
#include "gpu/stop_flag.h"

namespace mzcache::gpu {
namespace {

using actors::ComputeSlice;
using actors::LayerStage;
using actors::LayerTensor;
using actors::ModelDescription;

// Gathering a slice's calls pays where launches cost as much as the work between them.
constexpr std::uint32_t kGatheredTokensMax = 32;
// What the kernels take at once, and the most calls a layer of any family makes.
constexpr std::uint32_t kSliceTokensMax = 512;
constexpr std::uint32_t kOperationsPerLayer = 32;
// Activations of 8 bits are doubled in the first layer, whose errors pass through all others.
constexpr std::uint32_t kFineLayers = 1;
// Of a long slice's tokens, one in so many is looked at for query statistics.
constexpr std::uint32_t kQueryEvery = 8;

// Not thread-safe but for request_stop; the state of the slice under way lives in slice_.
class OpenClComputeQueue final : public actors::ComputeQueue {
 public:
  OpenClComputeQueue(Device& device, UnitMemory& memory, const ModelDescription& model,
                     const ComputeOptions& options)
      : device_(device), memory_(memory), model_(model), options_(options) {
    if (options_.context_tokens_max == 0) options_.context_tokens_max = model_.context_length;
    context_chunks_ = chunks_of(options_.context_tokens_max);
  }
  ~OpenClComputeQueue() override {
    (void)device_.queue().finish();
    if (completions_) completions_->drain();
  }
  OpenClComputeQueue(const OpenClComputeQueue&) = delete;
  OpenClComputeQueue& operator=(const OpenClComputeQueue&) = delete;

  [[nodiscard]] Result<void> prepare(PendingKernels kernels);
  // The kernels, once they are there.
  [[nodiscard]] Result<void> prepare_calls();

  void set_listener(std::function<void(const actors::ComputeCompletion&)> listener) override {
    completions_->set_listener(std::move(listener));
  }
  Result<void> begin_slice(const ComputeSlice& slice) override;
  Result<void> enqueue_layer(std::uint32_t layer, LayerStage stage, std::uint64_t ticket) override;
  Result<void> enqueue_head(std::uint64_t ticket) override;
  void flush() override;
  // The CPU set on memory that it takes by the host's own addresses.
  bool reads_encoded() const noexcept override {
    return device_.info().kernels == "cpu" && device_.info().mode == MemoryMode::kHostMapping;
  }
  bool takes_whole_slice() const noexcept override {
    return calls_ != nullptr && calls_->gathering();
  }
  void request_stop() noexcept override { stop_->set(); }
  void clear_stop() noexcept override { stop_->clear(); }
  std::span<const float> logits(std::size_t row) const override;
  std::uint64_t scratch_bytes() const noexcept override { return scratch_bytes_.load(); }
  void release_scratch() noexcept override;
  std::uint32_t slice_tokens_max() const noexcept override { return options_.slice_tokens_max; }
  bool sample_queries(bool wanted) override;
  Result<actors::QuerySamples> query_samples() override;

 private:
  struct Slice {
    std::uint32_t context = 0;
    std::uint32_t first_position = 0;
    std::uint32_t tokens = 0;
    std::uint32_t logit_rows = 0;
    bool embedded = false;
    std::vector<actors::EncodedChunk> encoded;
  };

  [[nodiscard]] Result<void> check_slice(const ComputeSlice& slice) const;
  [[nodiscard]] Result<void> check_encoded(const ComputeSlice& slice) const;
  [[nodiscard]] Result<void> fill_inputs(const ComputeSlice& slice);
  [[nodiscard]] AttentionShape attention_shape(const actors::LayerDescription& layer) const {
    return gpu::attention_shape(model_, layer, slice_.first_position, slice_.tokens);
  }
  [[nodiscard]] DeviceTensor tensor(std::uint32_t layer, const Operation& operation) const;
  // Where the layer's chunks are now: written to the layer's table where that has changed.
  [[nodiscard]] Result<DeviceChunks> chunks(std::uint32_t layer);
  void embed();
  void run(std::uint32_t layer, const Operation& operation, const DeviceChunks& chunks);
  // The sequence's status, and its completion where a ticket asks for one.
  [[nodiscard]] Result<void> finish(std::uint64_t ticket);

  Device& device_;
  UnitMemory& memory_;
  const ModelDescription model_;
  ComputeOptions options_;
  std::uint32_t context_chunks_ = 0;
  std::vector<LayerRecipe> recipes_;
  std::unique_ptr<StopFlag> stop_;
  PendingKernels kernels_;
  std::unique_ptr<KernelCalls> calls_;
  std::shared_ptr<CompletionOrder> completions_;

  SliceScratch scratch_;
  std::atomic<std::uint64_t> scratch_bytes_{0};
  ScratchBuffer tables_;                    // [layer][chunk]: addresses or offsets
  std::vector<std::uint64_t> tables_host_;  // what tables_ holds once all copies ran
  Slice slice_;

  std::vector<std::uint64_t> gathered_;  // tickets of stages that flush() launches

  ScratchBuffer query_sums_;  // [layer][heads · head_dim]; empty: queries are not sampled
  std::uint32_t queries_sampled_ = 0;
  std::vector<float> zeros_host_;

  // Sources of copies that may still be under way; kept until the next slice.
  std::vector<std::byte> rows_host_;
  std::vector<std::uint32_t> logit_rows_host_;
  std::vector<float> angles_host_;
  std::vector<float> windowed_angles_host_;
  std::vector<float> logits_host_;
};

Result<void> OpenClComputeQueue::prepare(PendingKernels kernels) {
  if (auto ok = check_model(model_); !ok) return ok;
  if (options_.slice_tokens_max == 0 || options_.slice_tokens_max > kSliceTokensMax) {
    return Error{ErrorCode::kBadArgument, 0, "compute queue",
                 "slices of " + std::to_string(options_.slice_tokens_max) + " tokens; 1 … " +
                     std::to_string(kSliceTokensMax)};
  }
  for (const auto& layer : model_.layer) recipes_.push_back(make_layer_recipe(layer));
  auto stop = StopFlag::create(device_);
  if (!stop) return stop.error();
  stop_ = std::move(*stop);
  kernels_ = std::move(kernels);
  completions_ = std::make_shared<CompletionOrder>(*stop_);
  // No chunk lies there, so that the first look at a chunk always writes its entry.
  tables_host_.assign(std::size_t{model_.layers} * context_chunks_, ~std::uint64_t{0});
  return tables_.resize(device_, tables_host_.size() * sizeof(std::uint64_t));
}

Result<void> OpenClComputeQueue::prepare_calls() {
  if (calls_ != nullptr) return {};
  const Result<Kernels>& found = kernels_.get();
  if (!found) return found.error();
  const Kernels& kernels = *found;
  if (!kernels.needs.cover(needs_of(model_, kernels.needs.int8))) {
    return Error{ErrorCode::kInternal, 0, "compute queue", "kernels made for another model"};
  }
  auto calls =
      KernelCalls::create(device_, kernels, *stop_, kOperationsPerLayer * (model_.layers + 1));
  if (!calls) return calls.error();
  calls_ = std::move(*calls);
  return {};
}

Result<void> OpenClComputeQueue::check_slice(const ComputeSlice& slice) const {
  const auto bad = [](const std::string& context) -> Result<void> {
    return Error{ErrorCode::kBadArgument, 0, "begin slice", context};
  };
  if (slice.token_count == 0 || slice.token_count > options_.slice_tokens_max) {
    return bad(std::to_string(slice.token_count) + " tokens; a slice has 1 … " +
               std::to_string(options_.slice_tokens_max));
  }
  if (slice.embedding_rows.size() != slice.token_count) {
    return bad(std::to_string(slice.embedding_rows.size()) + " embedding rows for " +
               std::to_string(slice.token_count) + " tokens");
  }
  if (std::uint64_t{slice.first_position} + slice.token_count > options_.context_tokens_max) {
    return Error{ErrorCode::kContextFull, 0, "begin slice",
                 "positions " + std::to_string(slice.first_position) + " + " +
                     std::to_string(slice.token_count) + " of " +
                     std::to_string(options_.context_tokens_max)};
  }
  for (const std::uint32_t row : slice.logit_rows) {
    if (row >= slice.token_count) return bad("logit row " + std::to_string(row) + " is outside");
  }
  return check_encoded(slice);
}

Result<void> OpenClComputeQueue::check_encoded(const ComputeSlice& slice) const {
  // 8 bits a value, and two FP16 parameters per group of 64.
  const actors::ChunkLayout layout = model_.chunk_layout();
  const std::uint64_t width = std::uint64_t{layout.kv_heads} * layout.head_dim;
  const std::uint64_t bytes = 2 * layout.tokens * (width + (width + 63) / 64 * 4);
  for (const actors::EncodedChunk& chunk : slice.encoded) {
    const bool address = reinterpret_cast<std::uint64_t>(chunk.bytes.data()) % 2 == 0;
    const bool full = (std::uint64_t{chunk.chunk} + 1) * layout.tokens <= slice.first_position;
    if (reads_encoded() && address && full && chunk.bytes.size() == bytes) continue;
    return Error{ErrorCode::kInternal, 0, "begin slice",
                 "chunk " + std::to_string(chunk.chunk) + " of layer " +
                     std::to_string(chunk.layer) + " cannot be read encoded"};
  }
  return {};
}

Result<void> OpenClComputeQueue::fill_inputs(const ComputeSlice& slice) {
  const std::size_t row_bytes = model_.embedding.row_bytes;
  rows_host_.resize(row_bytes * slice.token_count);
  for (std::size_t i = 0; i < slice.token_count; ++i) {
    std::memcpy(rows_host_.data() + i * row_bytes, slice.embedding_rows[i], row_bytes);
  }
  logit_rows_host_ = slice.logit_rows;
  fill_rope_angles(model_.rope, slice.first_position, slice.token_count, angles_host_);
  fill_rope_angles(model_.windowed_rope.value_or(actors::RopeDescription{}), slice.first_position,
                   slice.token_count, windowed_angles_host_);
  for (const auto& [buffer, data] :
       {std::pair{&scratch_.embedding_rows, std::as_bytes(std::span(rows_host_))},
        std::pair{&scratch_.logit_rows, std::as_bytes(std::span(logit_rows_host_))},
        std::pair{&scratch_.angles, std::as_bytes(std::span(angles_host_))},
        std::pair{&scratch_.windowed_angles, std::as_bytes(std::span(windowed_angles_host_))}}) {
    if (auto ok = buffer->upload(device_, 0, data); !ok) return ok;
  }
  return {};
}

void OpenClComputeQueue::release_scratch() noexcept {
  (void)device_.queue().finish();  // nothing runs; the driver lets go of the last slice's arguments
  scratch_ = SliceScratch();
  scratch_bytes_ = tables_.bytes();
}

Result<void> OpenClComputeQueue::begin_slice(const ComputeSlice& slice) {
  if (auto ok = check_slice(slice); !ok) return ok;
  if (auto ok = prepare_calls(); !ok) return ok;
  slice_ = {slice.context,
            slice.first_position,
            slice.token_count,
            static_cast<std::uint32_t>(slice.logit_rows.size()),
            false,
            slice.encoded};
  // Windowed layers cut a shorter context, perhaps into more ranges: room for the most there can
  // be.
  const std::uint32_t chunks = chunks_of(slice_.first_position + slice_.tokens);
  const std::uint32_t ranges_max = attention_ranges_max(chunks, slice_.tokens);
  std::uint32_t widest = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(Slot::kCount); ++i) {
    widest = std::max(widest, slot_width(model_, static_cast<Slot>(i)));
  }
  const SliceShape shape{slice_.tokens, slice_.logit_rows, ranges_max,
                         calls_->packed_bytes(widest, slice_.tokens)};
  auto resized = scratch_.resize(device_, model_, shape);
  if (resized) resized = fill_inputs(slice);
  scratch_bytes_ = scratch_.bytes() + tables_.bytes();
  if (!resized) {
    slice_ = {};
    return resized;
  }
  calls_->begin_slice(slice.undisturbed && slice.token_count <= kGatheredTokensMax);
  return {};
}

// With the first stage, whose completion stands for it too: a slice that is given up before it has
// nothing on the device that would still use the scratch.
void OpenClComputeQueue::embed() {
  if (std::exchange(slice_.embedded, true)) return;
  calls_->embed(scratch_.embedding_rows, model_.embedding, model_.hidden, slice_.tokens,
                scratch_[Slot::kHidden]);
}

DeviceTensor OpenClComputeQueue::tensor(std::uint32_t layer, const Operation& operation) const {
  const auto& description = model_.layer[layer];
  DeviceTensor tensor;
  tensor.unit = memory_.address(actors::weights_unit(layer));
  tensor.view = description[operation.tensor];
  tensor.coarse = layer >= kFineLayers;
  if (operation.bias != LayerTensor::kCount) {
    tensor.has_bias = true;
    tensor.bias_offset = description[operation.bias].unit_offset;
  }
  return tensor;
}

Result<DeviceChunks> OpenClComputeQueue::chunks(std::uint32_t layer) {
  const AttentionShape shape = attention_shape(model_.layer[layer]);
  const std::uint32_t end = chunks_of(slice_.first_position + slice_.tokens);
  const std::size_t first = std::size_t{layer} * context_chunks_;
  DeviceChunks chunks{{}, &tables_, first};
  const auto encoded =
      std::ranges::equal_range(slice_.encoded, layer, {}, &actors::EncodedChunk::layer);
  chunks.encoded = !encoded.empty();
  bool changed = false;
  for (std::uint32_t chunk = shape.first_chunk; chunk < end; ++chunk) {
    chunks.base = memory_.address(actors::kv_unit(slice_.context, layer, chunk));
    const auto found = std::ranges::lower_bound(encoded, chunk, {}, &actors::EncodedChunk::chunk);
    const bool in_place = found != encoded.end() && found->chunk == chunk;
    const std::uint64_t entry = in_place ? table_entry(found->bytes) : table_entry(chunks.base);
    changed |= std::exchange(tables_host_[first + chunk], entry) != entry;
  }
  if (changed) {
    // The layer's earlier kernels are done: a slice passes each layer once.
    const auto entries = std::span(tables_host_).subspan(first, end);
    if (auto ok = tables_.upload(device_, first * sizeof(std::uint64_t), std::as_bytes(entries));
        !ok) {
      return ok.error();
    }
  }
  calls_->declare_pointers(memory_.reachable_pointers());
  return chunks;
}

void OpenClComputeQueue::run(std::uint32_t layer, const Operation& operation,
                             const DeviceChunks& chunks) {
  const std::uint32_t tokens = slice_.tokens;
  const ScratchBuffer& in = scratch_[operation.in];
  const ScratchBuffer& out = scratch_[operation.out];
  const auto& description = model_.layer[layer];
  switch (operation.kind) {
    case OperationKind::kNorm:
      calls_->rms_norm(in, out, tensor(layer, operation), tokens, model_.norm_epsilon, nullptr,
                       operation.add);
      break;
    case OperationKind::kHeadNorm: {
      const std::uint32_t heads = slot_width(model_, operation.in) / model_.head_dim;
      calls_->rms_norm(in, out, tensor(layer, operation), tokens * heads, model_.norm_epsilon,
                       nullptr, false);
      break;
    }
    case OperationKind::kMatmul:
      calls_->matmul(tensor(layer, operation), in, scratch_.packed, out, tokens, operation.add);
      break;
    case OperationKind::kRopeStore: {
      const actors::RopeDescription& rope = model_.rope_of(description);
      const bool windowed = model_.windowed_rope && &rope == &*model_.windowed_rope;
      calls_->rope_store(scratch_[Slot::kQuery], scratch_[Slot::kKey], scratch_[Slot::kValue],
                         windowed ? scratch_.windowed_angles : scratch_.angles, chunks,
                         attention_shape(description), rope.dimensions,
                         rope.pairing == actors::RopeDescription::Pairing::kSplitHalves);
      if (query_sums_.bytes() != 0 && tokens >= kPackedTokensMin) {
        const std::uint32_t width = slot_width(model_, Slot::kQuery);
        calls_->query_energy(scratch_[Slot::kQuery], query_sums_, std::uint64_t{layer} * width,
                             width, tokens, kQueryEvery);
        if (layer == 0) queries_sampled_ += (tokens + kQueryEvery - 1) / kQueryEvery;
      }
      break;
    }
    case OperationKind::kAttention:
      calls_->attention(in, out, scratch_.partial, scratch_.partial_weights, chunks,
                        attention_shape(description));
      break;
    case OperationKind::kGate:
      calls_->gate(out, in, tokens * model_.feed_forward, gate_kind(model_));
      break;
  }
}

Result<void> OpenClComputeQueue::enqueue_layer(std::uint32_t layer, LayerStage stage,
                                               std::uint64_t ticket) {
  if (layer >= model_.layers || slice_.tokens == 0) {
    return Error{ErrorCode::kInternal, 0, "enqueue layer",
                 "layer " + std::to_string(layer) + " of " + std::to_string(model_.layers) + ", " +
                     std::to_string(slice_.tokens) + " tokens"};
  }
  calls_->begin_events(ticket != 0);
  DeviceChunks found;
  if (stage == LayerStage::kAttend) {
    auto located = chunks(layer);
    if (!located) return located.error();
    found = *located;
  }
  embed();
  const LayerRecipe& recipe = recipes_[layer];
  for (const Operation& operation :
       stage == LayerStage::kProject ? recipe.project : recipe.attend) {
    run(layer, operation, found);
  }
  return finish(ticket);
}

Result<void> OpenClComputeQueue::enqueue_head(std::uint64_t ticket) {
  if (slice_.tokens == 0) return Error{ErrorCode::kInternal, 0, "enqueue head", "no slice"};
  calls_->begin_events(ticket != 0);
  const std::uint32_t rows = slice_.logit_rows;
  if (rows != 0) {
    const KernelAddress unit = memory_.address(actors::head_unit(model_.layers));
    calls_->rms_norm(scratch_[Slot::kHidden], scratch_[Slot::kNormed],
                     {unit, model_.head.norm, false, 0}, rows, model_.norm_epsilon,
                     &scratch_.logit_rows, false);
    // Coarse: what the head rounds no later layer multiplies, and it is most of a small model.
    calls_->matmul({unit, model_.head.output, false, 0, true}, scratch_[Slot::kNormed],
                   scratch_.packed, scratch_.logits, rows, false);
    if (model_.logit_softcap > 0) {
      calls_->softcap(scratch_.logits, rows * model_.vocabulary, model_.logit_softcap);
    }
    if (scratch_.logits.host() == nullptr) {
      logits_host_.resize(std::size_t{rows} * model_.vocabulary);
      calls_->read(scratch_.logits, logits_host_.data(), logits_host_.size() * sizeof(float));
    }
  }
  if (ticket != 0 && !calls_->gathering() && calls_->last_event()() == nullptr) calls_->marker();
  return finish(ticket);
}

bool OpenClComputeQueue::sample_queries(bool wanted) {
  queries_sampled_ = 0;
  query_sums_ = ScratchBuffer();
  if (!wanted) return true;
  zeros_host_.assign(std::size_t{model_.layers} * slot_width(model_, Slot::kQuery), 0.0F);
  ScratchBuffer sums;
  const auto bytes = std::as_bytes(std::span(zeros_host_));
  if (!sums.resize(device_, bytes.size()) || !sums.upload(device_, 0, bytes)) return false;
  query_sums_ = std::move(sums);
  return true;
}

Result<actors::QuerySamples> OpenClComputeQueue::query_samples() {
  actors::QuerySamples samples;
  samples.width = slot_width(model_, Slot::kQuery);
  samples.tokens = queries_sampled_;
  samples.energy.resize(std::size_t{model_.layers} * samples.width);
  const std::size_t bytes = samples.energy.size() * sizeof(float);
  if (query_sums_.bytes() < bytes) {
    return Error{ErrorCode::kInternal, 0, "query samples", "queries are not sampled"};
  }
  if (query_sums_.host() != nullptr) {
    std::memcpy(samples.energy.data(), query_sums_.host(), bytes);
    return samples;
  }
  const cl_int status = clEnqueueReadBuffer(device_.queue()(), query_sums_.memory(), CL_TRUE, 0,
                                            bytes, samples.energy.data(), 0, nullptr, nullptr);
  if (status != CL_SUCCESS) return Error{ErrorCode::kDevice, status, "read query samples", ""};
  return samples;
}

Result<void> OpenClComputeQueue::finish(std::uint64_t ticket) {
  if (auto ok = calls_->take_status(); !ok) {
    (void)device_.queue().finish();  // what was enqueued of the stage has no ticket
    return ok;
  }
  if (ticket == 0) return {};
  if (calls_->gathering()) {
    gathered_.push_back(ticket);
    return {};
  }
  return completions_->expect({ticket}, calls_->first_event(), calls_->last_event());
}

void OpenClComputeQueue::flush() {
  if (!gathered_.empty()) {
    calls_->begin_events(true);
    calls_->launch();
    if (calls_->last_event()() == nullptr) calls_->marker();
    Result<void> launched = calls_->take_status();
    if (launched) {
      launched = completions_->expect(gathered_, calls_->first_event(), calls_->last_event());
    }
    if (!launched) completions_->fail(gathered_, launched.error());
    gathered_.clear();
  }
  (void)device_.queue().flush();
}

std::span<const float> OpenClComputeQueue::logits(std::size_t row) const {
  if (row >= slice_.logit_rows) return {};
  const float* values = scratch_.logits.host() != nullptr
                            ? reinterpret_cast<const float*>(scratch_.logits.host())
                            : logits_host_.data();
  return {values + row * model_.vocabulary, model_.vocabulary};
}

}  // namespace

Result<std::unique_ptr<actors::ComputeQueue>> create_compute_queue(Device& device,
                                                                   PendingKernels kernels,
                                                                   UnitMemory& memory,
                                                                   const ModelDescription& model,
                                                                   const ComputeOptions& options) {
  auto queue = std::make_unique<OpenClComputeQueue>(device, memory, model, options);
  if (auto ok = queue->prepare(std::move(kernels)); !ok) return ok.error();
  return std::unique_ptr<actors::ComputeQueue>(std::move(queue));
}

Result<std::unique_ptr<actors::ComputeQueue>> create_compute_queue(Device& device,
                                                                   const Kernels& kernels,
                                                                   UnitMemory& memory,
                                                                   const ModelDescription& model,
                                                                   const ComputeOptions& options) {
  std::promise<Result<Kernels>> ready;
  ready.set_value(kernels);
  return create_compute_queue(device, ready.get_future().share(), memory, model, options);
}

}  // namespace mzcache::gpu
