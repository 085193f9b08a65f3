#include "sim/machines.h"

#include <array>

namespace mzcache::sim {
namespace {

using actors::kBlockAlignment;

struct Shape {
  const char* name;
  std::uint32_t layers, hidden, feed_forward, heads, kv_heads, head_dim, vocabulary, context;
};
constexpr std::array<Shape, 5> kShapes{{
    {"qwen3-0.6b", 28, 1024, 3072, 16, 8, 128, 151936, 40960},
    {"qwen3-1.7b", 28, 2048, 6144, 16, 8, 128, 151936, 40960},
    {"exaone4-1.2b", 30, 2048, 4096, 32, 8, 64, 102400, 65536},
    {"llama3.2-1b", 16, 2048, 8192, 32, 8, 64, 128256, 131072},
    {"smollm2-135m", 30, 576, 1536, 9, 3, 64, 49152, 8192},
}};

// Reads are the paper's figure for the device. The shares of allocation, reads and prefill in a
// sequential restore (paper, Figure 4: 10–13, 59–61, 28–29 %) give the other two rates: all three
// touch the same bytes, so rates are to each other as the shares are inversely.
MachineOptions phone(double read_bytes_per_s) {
  MachineOptions options;
  options.content = false;
  options.read_bytes_per_s = read_bytes_per_s;
  options.write_bytes_per_s = read_bytes_per_s / 4;
  options.storage_latency = actors::Nanoseconds(100'000);
  options.allocate_bytes_per_s = read_bytes_per_s * 60.0 / 11.5;
  options.device_bytes_per_s = read_bytes_per_s * 60.0 / 28.5;
  // One core's 8-bit decoding; not published. Between the disk and the memory (84.8 GB/s).
  options.decode_bytes_per_s = 6.3e9;
  options.encode_bytes_per_s = 3.0e9;
  options.depth = 8;
  options.block_bytes = std::uint64_t{1} << 20;
  return options;
}

}  // namespace

const std::vector<MachineModel>& machines() {
  static const std::vector<MachineModel> all{
      {"galaxy-s25plus", phone(4.2e9), {4, 2, 2}, {}},
      {"oneplus-12", phone(3.8e9), {4, 2, 2}, {}},
  };
  return all;
}

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  names.reserve(kShapes.size());
  for (const Shape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

Result<actors::ModelDescription> model_of_shape(std::string_view name) {
  for (const Shape& shape : kShapes) {
    if (name != shape.name) continue;
    actors::ModelDescription model;
    model.name = shape.name;
    model.architecture = "simulated";
    model.layers = shape.layers;
    model.hidden = shape.hidden;
    model.feed_forward = shape.feed_forward;
    model.heads = shape.heads;
    model.kv_heads = shape.kv_heads;
    model.head_dim = shape.head_dim;
    model.vocabulary = shape.vocabulary;
    model.context_length = shape.context;
    const std::uint64_t hidden = shape.hidden;
    const std::uint64_t queries = std::uint64_t{shape.heads} * shape.head_dim;
    const std::uint64_t keys = std::uint64_t{shape.kv_heads} * shape.head_dim;
    const std::uint64_t layer_bytes =
        2 * (2 * hidden * queries + 2 * hidden * keys + 3 * hidden * shape.feed_forward);
    const std::uint64_t unit = actors::align_up(layer_bytes, kBlockAlignment);
    std::uint64_t at = std::uint64_t{4} << 20;
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
      actors::LayerDescription description;
      description.ranges = {{actors::FileId::kModel, at, 0, unit}};
      description.unit_bytes = description.tensor_bytes = unit;
      model.layer.push_back(std::move(description));
      at += unit;
    }
    const std::uint64_t row = hidden * 2;
    const std::uint64_t head = actors::align_up(shape.vocabulary * row, kBlockAlignment);
    model.head.ranges = {{actors::FileId::kModel, at, 0, head}};
    model.head.unit_bytes = model.head.tensor_bytes = head;
    model.head.tied = true;
    model.embedding = {actors::TensorType::kF16, at, row, shape.vocabulary, 1.0F};
    model.file_bytes = at + head;
    return model;
  }
  std::string known;
  for (const std::string& shape : shape_names()) known += (known.empty() ? "" : ", ") + shape;
  return Error{ErrorCode::kBadArgument, 0, "simulate",
               "model '" + std::string(name) + "' (there are: " + known + ")"};
}

}  // namespace mzcache::sim
