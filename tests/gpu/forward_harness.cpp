#include "gpu/forward_harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "engine/gguf.h"

namespace mzcache::test {
namespace {

void require(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message());
}

}  // namespace

ModelBytes open_model_file(const std::string& path) {
  auto file = value_or_throw(engine::GgufFile::open(path));
  ModelBytes model;
  model.description = value_or_throw(engine::describe_model(file));
  std::ifstream stream(path, std::ios::binary);
  auto bytes = std::make_shared<std::vector<char>>(std::istreambuf_iterator<char>(stream),
                                                   std::istreambuf_iterator<char>());
  model.keep = bytes;
  const auto& description = model.description;
  model.embedding_row = [bytes, embedding = description.embedding](std::uint32_t token) {
    return reinterpret_cast<const std::byte*>(bytes->data()) + embedding.file_offset +
           token * embedding.row_bytes;
  };
  model.fill = [bytes, layers = description.layer, head = description.head](
                   actors::UnitId unit, std::span<std::byte> to) {
    const auto& ranges =
        unit.kind == actors::UnitKind::kHead ? head.ranges : layers[unit.layer].ranges;
    for (const auto& range : ranges) {
      std::memcpy(to.data() + range.buffer_offset, bytes->data() + range.file_offset, range.bytes);
    }
  };
  return model;
}

OpenDevice& open_device(const Setting& setting) {
  // Never destroyed: some drivers are gone before static objects are.
  static auto* const devices = new std::map<std::string, OpenDevice>;
  OpenDevice& open =
      (*devices)[setting.memory + "/" + setting.kernels + (setting.int8 ? "/int8/" : "/float/") +
                 std::to_string(setting.width)];
  if (open.device) return open;
  gpu::DeviceOptions options;
  options.force_memory = setting.memory;
  options.kernels = setting.kernels;
  options.float_width_max = setting.width;
  open.device = value_or_throw(gpu::Device::open(options));
  gpu::KernelNeeds needs;
  needs.int8 = setting.int8;
  open.kernels = value_or_throw(gpu::load_kernels(*open.device, needs, {}));
  return open;
}

bool have_cpu_kernels() {
  gpu::DeviceOptions options;
  options.kernels = "cpu";
  return gpu::Device::open(options).ok();
}

Forward::Forward(ModelBytes model, const Setting& setting, std::uint32_t context_tokens,
                 std::uint32_t slice_tokens_max)
    : model_(std::move(model)) {
  OpenDevice& open = open_device(setting);
  const auto& description = model_.description;
  gpu::UnitSizes sizes;
  for (const auto& layer : description.layer) sizes.weights_bytes.push_back(layer.unit_bytes);
  sizes.head_bytes = description.head.unit_bytes;
  sizes.chunk_bytes = description.chunk_bytes();
  memory_ = value_or_throw(gpu::UnitMemory::create(*open.device, sizes, {}));
  for (std::uint32_t i = 0; i <= description.layers; ++i) {
    const auto unit = i < description.layers ? actors::weights_unit(i) : actors::head_unit(i);
    require(memory_->populate(std::span(&unit, 1)));
    model_.fill(unit, memory_->bytes(unit));
    memory_->end_host_access(unit);
  }
  require(memory_->open_context(0, (context_tokens + 255) / 256));
  queue_ = value_or_throw(gpu::create_compute_queue(
      *open.device, open.kernels, *memory_, description, {slice_tokens_max, context_tokens}));
  queue_->set_listener([this](const actors::ComputeCompletion& completion) {
    const std::lock_guard lock(mutex_);
    completions_.push_back(completion);
    arrived_.notify_all();
  });
}

Forward::~Forward() {
  queue_.reset();  // before the memory its kernels use
}

void Forward::grow(std::uint32_t context, std::uint32_t tokens) {
  const std::uint32_t wanted = (tokens + 255) / 256;
  for (; chunks_ < wanted; ++chunks_) {
    for (std::uint32_t layer = 0; layer < description().layers; ++layer) {
      const auto unit = actors::kv_unit(context, layer, chunks_);
      require(memory_->populate(std::span(&unit, 1)));
      // FP16 NaN: whatever lies behind the last token must not matter.
      std::memset(memory_->bytes(unit).data(), 0x7F, description().chunk_bytes());
      memory_->end_host_access(unit);
    }
  }
}

actors::ComputeSlice Forward::slice(std::span<const std::uint32_t> tokens, std::uint32_t first,
                                    std::uint32_t count,
                                    const std::vector<std::uint32_t>& rows) const {
  actors::ComputeSlice slice;
  slice.first_position = first;
  slice.token_count = count;
  for (std::uint32_t i = 0; i < count; ++i) {
    slice.embedding_rows.push_back(model_.embedding_row(tokens[first + i]));
  }
  for (const std::uint32_t row : rows) {
    if (row >= first && row < first + count) slice.logit_rows.push_back(row - first);
  }
  return slice;
}

actors::ComputeCompletion Forward::compute(const actors::ComputeSlice& slice) {
  grow(slice.context, slice.first_position + slice.token_count);
  require(queue_->begin_slice(slice));
  for (std::uint32_t layer = 0; layer < description().layers; ++layer) {
    require(queue_->enqueue_layer(layer, actors::LayerStage::kProject, 0));
    require(queue_->enqueue_layer(layer, actors::LayerStage::kAttend, 0));
  }
  const std::uint64_t ticket = next_ticket_++;
  require(queue_->enqueue_head(ticket));
  queue_->flush();
  return wait(ticket);
}

std::vector<std::vector<float>> Forward::logits(std::span<const std::uint32_t> tokens,
                                                std::uint32_t batch,
                                                const std::vector<std::uint32_t>& positions) {
  std::vector<std::vector<float>> out;
  const auto total = static_cast<std::uint32_t>(tokens.size());
  for (std::uint32_t first = 0; first < total; first += batch) {
    const auto part = slice(tokens, first, std::min(batch, total - first), positions);
    (void)compute(part);
    for (std::size_t row = 0; row < part.logit_rows.size(); ++row) {
      const auto values = queue_->logits(row);
      out.emplace_back(values.begin(), values.end());
    }
  }
  return out;
}

actors::ComputeCompletion Forward::wait(std::uint64_t ticket) {
  std::unique_lock lock(mutex_);
  const auto found = [&] {
    return std::find_if(completions_.begin(), completions_.end(),
                        [&](const auto& completion) { return completion.ticket == ticket; });
  };
  arrived_.wait(lock, [&] { return found() != completions_.end(); });
  return *found();
}

std::vector<actors::ComputeCompletion> Forward::completions() {
  const std::lock_guard lock(mutex_);
  return completions_;
}

double rms_difference(std::span<const float> a, std::span<const float> b) {
  double sum = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    sum += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

}  // namespace mzcache::test
