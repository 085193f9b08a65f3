#include "engine/inspect.h"

#include <algorithm>
#include <map>

#include "engine/gguf_types.h"

namespace mzcache::engine {
namespace {

// Follows an array per layer as well as one number for all: the sum over layers, where it has one.
std::optional<std::uint64_t> sum_over_layers(const GgufFile& file, const std::string& key,
                                             std::uint64_t layers) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return {};
  if (const auto one = file.integer(key); one.ok() && one->has_value()) return **one * layers;
  const auto list = file.integers(key);
  if (!list || list->size() != layers) return {};
  std::uint64_t sum = 0;
  for (const std::int64_t value : *list) sum += value < 0 ? 0 : static_cast<std::uint64_t>(value);
  return sum;
}

// The number under `key`; where it is a list per layer, the largest.
std::optional<std::uint64_t> number_or_largest(const GgufFile& file, const std::string& key) {
  if (const auto one = file.integer(key); one.ok()) return *one;
  const auto list = file.integers(key);
  if (!list || list->empty()) return {};
  const std::int64_t largest = *std::max_element(list->begin(), list->end());
  return largest < 0 ? std::optional<std::uint64_t>() : static_cast<std::uint64_t>(largest);
}

void read_sizes(const GgufFile& file, ModelInfo& info) {
  const std::string prefix = info.architecture + ".";
  ModelInfo::Sizes& sizes = info.sizes;
  sizes.layers = number_or_largest(file, prefix + "block_count");
  sizes.hidden = number_or_largest(file, prefix + "embedding_length");
  sizes.feed_forward = number_or_largest(file, prefix + "feed_forward_length");
  sizes.heads = number_or_largest(file, prefix + "attention.head_count");
  sizes.kv_heads = number_or_largest(file, prefix + "attention.head_count_kv");
  sizes.head_dim = number_or_largest(file, prefix + "attention.key_length");
  sizes.context_length = number_or_largest(file, prefix + "context_length");
  if (!sizes.kv_heads) sizes.kv_heads = sizes.heads;
  if (!sizes.head_dim && sizes.hidden && sizes.heads && *sizes.heads != 0) {
    sizes.head_dim = *sizes.hidden / *sizes.heads;
  }
  const GgufTensor* embedding = file.tensor("token_embd.weight");
  info.tied_embeddings = embedding != nullptr && file.tensor("output.weight") == nullptr;
  if (embedding != nullptr && embedding->dimensions.size() > 1) {
    sizes.vocabulary = embedding->dimensions[1];
  } else if (info.tokenizer.tokens != 0) {
    sizes.vocabulary = info.tokenizer.tokens;
  }
}

// K and V of every layer in FP16.
void read_kv_bytes(const GgufFile& file, ModelInfo& info) {
  const ModelInfo::Sizes& sizes = info.sizes;
  if (!sizes.layers || !sizes.head_dim || !sizes.kv_heads) return;
  // Limits keep the products far from overflow; nothing real comes near.
  if (*sizes.layers > 65536 || *sizes.head_dim > 65536 || *sizes.kv_heads > 65536) return;
  const std::string prefix = info.architecture + ".attention.";
  const auto value_dim = number_or_largest(file, prefix + "value_length");
  if (value_dim && *value_dim > 65536) return;
  const std::uint64_t kv_heads = sum_over_layers(file, prefix + "head_count_kv", *sizes.layers)
                                     .value_or(*sizes.kv_heads * *sizes.layers);
  info.kv_bytes_per_token = kv_heads * (*sizes.head_dim + value_dim.value_or(*sizes.head_dim)) * 2;
}

void read_tensors(const GgufFile& file, ModelInfo& info) {
  std::map<std::uint32_t, ModelInfo::TensorTypeUse> types;
  for (const GgufTensor& tensor : file.tensors()) {
    std::uint64_t values = 1;
    for (const std::uint64_t size : tensor.dimensions) values *= size;
    info.parameters += values;
    info.tensor_bytes += tensor.bytes;
    ModelInfo::TensorTypeUse& use = types[tensor.type];
    use.type = gguf_type_name(tensor.type);
    ++use.tensors;
    use.bytes += tensor.bytes;
  }
  info.tensors = file.tensors().size();
  for (auto& [type, use] : types) info.tensor_types.push_back(std::move(use));
  std::stable_sort(info.tensor_types.begin(), info.tensor_types.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

Result<void> read_tokenizer(const GgufFile& file, ModelInfo::Tokenizer& tokenizer) {
  auto model = file.text("tokenizer.ggml.model");
  auto pre = file.text("tokenizer.ggml.pre");
  auto chat_template = file.text("tokenizer.chat_template");
  for (auto* text : {&model, &pre, &chat_template}) {
    if (!*text) return std::move(*text).error();
  }
  tokenizer.model = model->value_or("");
  tokenizer.pre = pre->value_or("");
  tokenizer.chat_template = chat_template->has_value();
  const auto tokens = file.texts("tokenizer.ggml.tokens");
  const auto merges = file.texts("tokenizer.ggml.merges");
  const auto bos = file.integer("tokenizer.ggml.bos_token_id");
  const auto eos = file.integer("tokenizer.ggml.eos_token_id");
  if (!tokens) return tokens.error();
  if (!merges) return merges.error();
  if (!bos) return bos.error();
  if (!eos) return eos.error();
  tokenizer.tokens = (*tokens)->size();
  tokenizer.merges = (*merges)->size();
  tokenizer.bos = *bos;
  tokenizer.eos = *eos;
  return {};
}

void read_units(const GgufFile& file, ModelInfo& info) {
  const auto model = describe_model(file);
  if (!model) {
    info.units_absent = model.error().message();
    return;
  }
  ModelInfo::Units units;
  for (std::uint32_t i = 0; i < model->layers; ++i) {
    const auto& layer = model->layer[i];
    units.units.push_back(
        {"weights", i, layer.unit_bytes, layer.tensor_bytes, layer.ranges.size(), layer.window});
  }
  units.units.push_back({"head", model->layers, model->head.unit_bytes, model->head.tensor_bytes,
                         model->head.ranges.size(), 0});
  units.weights_bytes = model->weights_bytes();
  units.kv_chunk_bytes = model->chunk_bytes();
  units.chunk_tokens = actors::kChunkTokens;
  units.tied_head = model->head.tied;
  info.units = std::move(units);
}

}  // namespace

Result<ModelInfo> inspect_model(const GgufFile& file) {
  ModelInfo info;
  info.file = file.path();
  info.file_bytes = file.file_bytes();
  info.gguf_version = file.version();
  auto architecture = file.text("general.architecture");
  auto name = file.text("general.name");
  if (!architecture) return std::move(architecture).error();
  if (!name) return std::move(name).error();
  info.architecture = architecture->value_or("");
  info.name = name->value_or("");
  if (auto done = read_tokenizer(file, info.tokenizer); !done) return done.error();
  read_tensors(file, info);
  read_sizes(file, info);
  read_kv_bytes(file, info);
  read_units(file, info);
  return info;
}

}  // namespace mzcache::engine
