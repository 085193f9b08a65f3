#include "gpu/compute_queue.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
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

// Attention over few tokens has few rows to share among the cores, so the context is cut as well:
// into at most this many ranges, of at least two chunks. The cut depends on sizes alone.
constexpr std::uint32_t kRangedTokensMax = 16;
constexpr std::uint32_t kRangesMax = 16;
constexpr std::uint32_t kRangeChunksMin = 2;

std::uint32_t chunks_of(std::uint32_t positions) {
  return (positions + actors::kChunkTokens - 1) / actors::kChunkTokens;
}

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

  [[nodiscard]] Result<void> prepare(const cl::Program& program);

  void set_listener(std::function<void(const actors::ComputeCompletion&)> listener) override {
    completions_->set_listener(std::move(listener));
  }
  Result<void> begin_slice(const ComputeSlice& slice) override;
  Result<void> enqueue_layer(std::uint32_t layer, LayerStage stage, std::uint64_t ticket) override;
  Result<void> enqueue_head(std::uint64_t ticket) override;
  void flush() override { (void)device_.queue().flush(); }
  void request_stop() noexcept override { stop_->set(); }
  void clear_stop() noexcept override { stop_->clear(); }
  std::span<const float> logits(std::size_t row) const override;
  std::uint64_t scratch_bytes() const noexcept override { return scratch_bytes_.load(); }
  std::uint32_t slice_tokens_max() const noexcept override { return options_.slice_tokens_max; }

 private:
  struct Slice {
    std::uint32_t context = 0;
    std::uint32_t first_position = 0;
    std::uint32_t tokens = 0;
    std::uint32_t logit_rows = 0;
  };

  [[nodiscard]] Result<void> check_slice(const ComputeSlice& slice) const;
  [[nodiscard]] Result<void> fill_inputs(const ComputeSlice& slice);
  [[nodiscard]] AttentionShape attention_shape(std::uint32_t window) const;
  [[nodiscard]] DeviceTensor tensor(std::uint32_t layer, const Operation& operation) const;
  // Where the layer's chunks are now: written to the layer's table where that has changed.
  [[nodiscard]] Result<DeviceChunks> chunks(std::uint32_t layer);
  void run(std::uint32_t layer, const Operation& operation, const DeviceChunks& chunks);
  void matmul(const DeviceTensor& weight, Slot in, const ScratchBuffer& out, std::uint32_t tokens,
              bool add);
  // The sequence's status, and its completion where a ticket asks for one.
  [[nodiscard]] Result<void> finish(std::uint64_t ticket);

  Device& device_;
  UnitMemory& memory_;
  const ModelDescription model_;
  ComputeOptions options_;
  std::uint32_t context_chunks_ = 0;
  std::vector<LayerRecipe> recipes_;
  std::unique_ptr<StopFlag> stop_;
  std::unique_ptr<KernelCalls> calls_;
  std::shared_ptr<CompletionOrder> completions_;

  SliceScratch scratch_;
  std::atomic<std::uint64_t> scratch_bytes_{0};
  ScratchBuffer tables_;                    // [layer][chunk]: addresses or offsets
  std::vector<std::uint64_t> tables_host_;  // what tables_ holds once all copies ran
  Slice slice_;
  std::optional<Slot> packed_from_;  // the slot that scratch_.packed holds

  // Sources of copies that may still be under way; kept until the next slice.
  std::vector<std::byte> rows_host_;
  std::vector<std::uint32_t> logit_rows_host_;
  std::vector<float> angles_host_;
  std::vector<float> logits_host_;
};

Result<void> OpenClComputeQueue::prepare(const cl::Program& program) {
  if (auto ok = check_model(model_); !ok) return ok;
  if (options_.slice_tokens_max == 0) {
    return Error{ErrorCode::kBadArgument, 0, "compute queue", "slices of 0 tokens"};
  }
  for (const auto& layer : model_.layer) recipes_.push_back(make_layer_recipe(layer));
  auto stop = StopFlag::create(device_);
  if (!stop) return stop.error();
  stop_ = std::move(*stop);
  auto calls = KernelCalls::create(device_, program, *stop_);
  if (!calls) return calls.error();
  calls_ = std::move(*calls);
  completions_ = std::make_shared<CompletionOrder>(*stop_);
  // No chunk lies there, so that the first look at a chunk always writes its entry.
  tables_host_.assign(std::size_t{model_.layers} * context_chunks_, ~std::uint64_t{0});
  return tables_.resize(device_, tables_host_.size() * sizeof(std::uint64_t));
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
  for (const auto& [buffer, data] :
       {std::pair{&scratch_.embedding_rows, std::as_bytes(std::span(rows_host_))},
        std::pair{&scratch_.logit_rows, std::as_bytes(std::span(logit_rows_host_))},
        std::pair{&scratch_.angles, std::as_bytes(std::span(angles_host_))}}) {
    if (auto ok = buffer->upload(device_, 0, data); !ok) return ok;
  }
  return {};
}

Result<void> OpenClComputeQueue::begin_slice(const ComputeSlice& slice) {
  if (auto ok = check_slice(slice); !ok) return ok;
  slice_ = {slice.context, slice.first_position, slice.token_count,
            static_cast<std::uint32_t>(slice.logit_rows.size())};
  packed_from_.reset();
  // Windowed layers cut a shorter context, perhaps into more ranges: room for the most there can
  // be.
  const std::uint32_t chunks = chunks_of(slice_.first_position + slice_.tokens);
  const std::uint32_t ranges_max =
      slice_.tokens > kRangedTokensMax
          ? 1
          : std::min(kRangesMax, (chunks + kRangeChunksMin - 1) / kRangeChunksMin);
  const SliceShape shape{slice_.tokens, slice_.logit_rows, ranges_max};
  auto resized = scratch_.resize(device_, model_, shape);
  if (resized) resized = fill_inputs(slice);
  scratch_bytes_ = scratch_.bytes() + tables_.bytes();
  if (!resized) {
    slice_ = {};
    return resized;
  }
  calls_->begin_events(false);
  calls_->embed(scratch_.embedding_rows, model_.embedding, model_.hidden, slice_.tokens,
                scratch_[Slot::kHidden]);
  return calls_->take_status();
}

AttentionShape OpenClComputeQueue::attention_shape(std::uint32_t window) const {
  AttentionShape shape;
  shape.heads = model_.heads;
  shape.kv_heads = model_.kv_heads;
  shape.head_dim = model_.head_dim;
  shape.first_position = slice_.first_position;
  shape.tokens = slice_.tokens;
  shape.window = window;
  shape.scale = model_.attention_scale;
  shape.softcap = model_.attention_softcap;
  const std::uint32_t first_visible =
      window != 0 && slice_.first_position + 1 > window ? slice_.first_position + 1 - window : 0;
  shape.first_chunk = first_visible / actors::kChunkTokens;
  const std::uint32_t chunks = chunks_of(slice_.first_position + slice_.tokens) - shape.first_chunk;
  shape.range_chunks = chunks;
  if (slice_.tokens <= kRangedTokensMax) {
    shape.range_chunks = std::max(kRangeChunksMin, (chunks + kRangesMax - 1) / kRangesMax);
  }
  shape.ranges = (chunks + shape.range_chunks - 1) / shape.range_chunks;
  return shape;
}

DeviceTensor OpenClComputeQueue::tensor(std::uint32_t layer, const Operation& operation) const {
  const auto& description = model_.layer[layer];
  DeviceTensor tensor;
  tensor.unit = memory_.address(actors::weights_unit(layer));
  tensor.view = description[operation.tensor];
  if (operation.bias != LayerTensor::kCount) {
    tensor.has_bias = true;
    tensor.bias_offset = description[operation.bias].unit_offset;
  }
  return tensor;
}

Result<DeviceChunks> OpenClComputeQueue::chunks(std::uint32_t layer) {
  const AttentionShape shape = attention_shape(model_.layer[layer].window);
  const std::uint32_t end = chunks_of(slice_.first_position + slice_.tokens);
  const std::size_t first = std::size_t{layer} * context_chunks_;
  DeviceChunks chunks{{}, &tables_, first};
  bool changed = false;
  for (std::uint32_t chunk = shape.first_chunk; chunk < end; ++chunk) {
    const auto address = memory_.address(actors::kv_unit(slice_.context, layer, chunk));
    chunks.base = address;
    const std::uint64_t entry = address.pointer != nullptr
                                    ? reinterpret_cast<std::uint64_t>(address.pointer)
                                    : address.offset;
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

void OpenClComputeQueue::matmul(const DeviceTensor& weight, Slot in, const ScratchBuffer& out,
                                std::uint32_t tokens, bool add) {
  if (tokens < kPackedTokensMin) return calls_->matmul(weight, scratch_[in], out, tokens, add);
  if (packed_from_ != in) {
    calls_->pack(scratch_[in], scratch_.packed, weight.view.columns, tokens);
    packed_from_ = in;
  }
  calls_->matmul_packed(weight, scratch_.packed, out, tokens, add);
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
      matmul(tensor(layer, operation), operation.in, out, tokens, operation.add);
      break;
    case OperationKind::kRopeStore:
      calls_->rope_store(scratch_[Slot::kQuery], scratch_[Slot::kKey], scratch_[Slot::kValue],
                         scratch_.angles, chunks, attention_shape(description.window),
                         description.rope ? model_.rope.dimensions : 0,
                         model_.rope.pairing == actors::RopeDescription::Pairing::kSplitHalves);
      break;
    case OperationKind::kAttention:
      calls_->attention(in, out, scratch_.partial, scratch_.partial_weights, chunks,
                        attention_shape(description.window));
      break;
    case OperationKind::kGate:
      calls_->gate(out, in, tokens * model_.feed_forward, gate_kind(model_));
      break;
  }
  if (packed_from_ == operation.out) packed_from_.reset();
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
    packed_from_.reset();
    matmul({unit, model_.head.output, false, 0}, Slot::kNormed, scratch_.logits, rows, false);
    if (model_.logit_softcap > 0) {
      calls_->softcap(scratch_.logits, rows * model_.vocabulary, model_.logit_softcap);
    }
    if (scratch_.logits.host() == nullptr) {
      logits_host_.resize(std::size_t{rows} * model_.vocabulary);
      calls_->read(scratch_.logits, logits_host_.data(), logits_host_.size() * sizeof(float));
    }
  }
  if (ticket != 0 && calls_->last_event()() == nullptr) calls_->marker();
  return finish(ticket);
}

Result<void> OpenClComputeQueue::finish(std::uint64_t ticket) {
  if (auto ok = calls_->take_status(); !ok) return ok;
  if (ticket == 0) return {};
  return completions_->expect(ticket, calls_->first_event(), calls_->last_event());
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
                                                                   const cl::Program& program,
                                                                   UnitMemory& memory,
                                                                   const ModelDescription& model,
                                                                   const ComputeOptions& options) {
  auto queue = std::make_unique<OpenClComputeQueue>(device, memory, model, options);
  if (auto ok = queue->prepare(program); !ok) return ok.error();
  return std::unique_ptr<actors::ComputeQueue>(std::move(queue));
}

}  // namespace mzcache::gpu
