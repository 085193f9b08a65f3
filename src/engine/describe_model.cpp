// From a GGUF file's metadata to the model's description. Of the weights only rope_freqs is read.
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "engine/describe_model_family.h"
#include "engine/describe_model_keys.h"
#include "engine/describe_model_rope.h"
#include "engine/describe_model_units.h"
#include "engine/describe_model_windows.h"
#include "engine/gguf.h"
#include "engine/gguf_text.h"
#include "engine/gguf_types.h"

namespace mzcache::engine {
namespace {

using actors::HeadDescription;
using actors::LayerDescription;
using actors::LayerTensor;
using actors::TensorType;
using actors::TensorView;

// Limits of the description; far above any model this is made for.
constexpr std::uint32_t kLayersMax = 4096;
constexpr std::uint32_t kHiddenMax = 1U << 20;
constexpr std::uint32_t kFeedForwardMax = 1U << 22;
constexpr std::uint32_t kHeadsMax = 4096;
constexpr std::uint32_t kHeadDimMax = 4096;
constexpr std::uint32_t kContextMax = 1U << 30;
constexpr std::uint32_t kVocabularyMax = 1U << 24;

// Keys (after "<architecture>.") that change the computation in ways no family here has.
constexpr std::array<std::string_view, 5> kRefusedKeys = {
    "expert_count", "attention.scale", "embedding_scale", "residual_scale", "logit_scale"};

class Describer {
 public:
  Describer(const GgufFile& file, const ModelFamily& family) : file_(file), family_(family) {}

  Result<ModelDescription> run() {
    for (const GgufTensor& tensor : file_.tensors()) by_name_.emplace(tensor.name, &tensor);
    if (describe_file() && describe_sizes() && describe_rope() && describe_embedding() &&
        describe_layers() && describe_windows() && describe_head() && read_rope_factors() &&
        check_all_used()) {
      return std::move(model_);
    }
    return std::move(error_);
  }

 private:
  bool fail(ErrorCode code, const std::string& context) {
    error_ = {code, 0, "read model", file_.path() + ": " + context};
    return false;
  }

  bool describe_file();
  bool describe_sizes();
  bool describe_rope();
  bool describe_windows();
  bool describe_embedding();
  bool describe_layers();
  bool describe_layer(std::uint32_t index);
  bool describe_head();
  bool read_rope_factors();
  bool check_all_used();

  // The tensor, checked: there, of a supported type, of this shape. nullptr after a failure.
  const GgufTensor* find(const std::string& name, std::uint64_t rows, std::uint64_t columns);
  TensorView view(const GgufTensor& tensor, const UnitPlacement& placement) const;
  std::string wanted_tensors() const;

  const GgufFile& file_;
  const ModelFamily& family_;
  ModelDescription model_;
  std::unordered_map<std::string_view, const GgufTensor*> by_name_;
  std::unordered_set<std::string_view> used_;
  Error error_;
};

std::string shape_text(const std::vector<std::uint64_t>& dimensions) {
  std::string text = "[";
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    text += (i == 0 ? "" : " × ") + std::to_string(dimensions[i]);
  }
  return text + "]";
}

std::string Describer::wanted_tensors() const {
  std::string text = "token_embd.weight output_norm.weight";
  if (!family_.always_tied) text += " output.weight (optional)";
  if (family_.rope_factors) text += " rope_freqs.weight (optional)";
  text += " blk.N.{";
  for (const LayerTensorSpec& spec : family_.layer_tensors) {
    text += (&spec == family_.layer_tensors.data() ? "" : " ") + std::string(spec.name);
    if (spec.optional) text += " (optional)";
  }
  return text + "}";
}

const GgufTensor* Describer::find(const std::string& name, std::uint64_t rows,
                                  std::uint64_t columns) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    fail(ErrorCode::kBadFormat, "tensor " + quoted(name) + " is missing; architecture " +
                                    std::string(family_.architecture) + " has " + wanted_tensors());
    return nullptr;
  }
  const GgufTensor& tensor = *found->second;
  used_.insert(tensor.name);
  std::array<std::uint64_t, 4> sizes = {1, 1, 1, 1};
  for (std::size_t i = 0; i < tensor.dimensions.size(); ++i) sizes[i] = tensor.dimensions[i];
  if (sizes[0] != columns || sizes[1] != rows || sizes[2] != 1 || sizes[3] != 1) {
    fail(ErrorCode::kBadFormat, "tensor " + quoted(name) + " has the shape " +
                                    shape_text(tensor.dimensions) + ", the metadata asks for [" +
                                    std::to_string(columns) +
                                    (rows == 1 ? "]" : " × " + std::to_string(rows) + "]"));
    return nullptr;
  }
  const bool vector = rows == 1;
  const bool supported =
      vector ? tensor.type == static_cast<std::uint32_t>(TensorType::kF32)
             : actors::tensor_type_traits(static_cast<TensorType>(tensor.type)).block_bytes != 0;
  if (!supported) {
    fail(ErrorCode::kUnsupported,
         "tensor " + quoted(name) + " is of type " + gguf_type_name(tensor.type) +
             "; supported: " + (vector ? "f32 (vectors)" : supported_type_names()));
    return nullptr;
  }
  return &tensor;
}

TensorView Describer::view(const GgufTensor& tensor, const UnitPlacement& placement) const {
  TensorView view;
  view.type = static_cast<TensorType>(tensor.type);
  view.unit_offset = unit_offset(placement, tensor);
  view.columns = static_cast<std::uint32_t>(tensor.dimensions[0]);
  view.rows = tensor.dimensions.size() > 1 ? static_cast<std::uint32_t>(tensor.dimensions[1]) : 1;
  view.row_bytes = tensor.bytes / view.rows;
  return view;
}

bool Describer::describe_file() {
  model_.file = file_.path();
  model_.file_bytes = file_.file_bytes();
  model_.identity = file_.identity();
  model_.architecture = family_.architecture;
  auto name = file_.text("general.name");
  auto chat_template = file_.text("tokenizer.chat_template");
  for (auto* text : {&name, &chat_template}) {
    if (*text) continue;
    error_ = std::move(*text).error();
    return false;
  }
  model_.name = name->value_or("");
  model_.chat_template = chat_template->value_or("");
  return true;
}

bool Describer::describe_sizes() {
  ModelKeys keys(file_, family_.architecture);
  model_.layers = keys.size("block_count", kLayersMax);
  model_.hidden = keys.size("embedding_length", kHiddenMax);
  model_.feed_forward = keys.size("feed_forward_length", kFeedForwardMax);
  model_.context_length = keys.size("context_length", kContextMax);
  model_.heads = keys.size("attention.head_count", kHeadsMax);
  model_.kv_heads = keys.size("attention.head_count_kv", kHeadsMax, model_.heads);
  if (!keys.has("attention.key_length") && model_.hidden % model_.heads != 0) {
    keys.fail(ErrorCode::kBadFormat, "attention.key_length",
              "is missing, and " + std::to_string(model_.heads) + " heads do not divide " +
                  std::to_string(model_.hidden) + " (embedding_length)");
  }
  model_.head_dim =
      keys.size("attention.key_length", kHeadDimMax, std::max(model_.hidden / model_.heads, 1U));
  const std::uint32_t value_dim = keys.size("attention.value_length", kHeadDimMax, model_.head_dim);
  if (value_dim != model_.head_dim) {
    keys.fail(ErrorCode::kUnsupported, "attention.value_length",
              "value " + std::to_string(value_dim) + "; supported: the same as key_length (" +
                  std::to_string(model_.head_dim) + ")");
  }
  if (model_.heads % model_.kv_heads != 0) {
    keys.fail(ErrorCode::kBadFormat, "attention.head_count_kv",
              "value " + std::to_string(model_.kv_heads) + " does not divide head_count (" +
                  std::to_string(model_.heads) + ")");
  }
  model_.norm_epsilon = keys.positive("attention.layer_norm_rms_epsilon", 1.0, 1e-5F);
  model_.attention_scale = 1.0F / std::sqrt(static_cast<float>(model_.head_dim));
  if (model_.layers == family_.hidden_scale_layers) {
    model_.attention_scale =
        1.0F / std::sqrt(static_cast<float>(model_.hidden) / static_cast<float>(model_.heads));
  }
  model_.activation = family_.activation;
  const auto softcap = [&keys](std::string_view key, std::optional<float> otherwise) {
    if (otherwise) return keys.positive_or_zero(key, 1e6, *otherwise);
    keys.refuse(key);
    return 0.0F;
  };
  model_.attention_softcap = softcap("attn_logit_softcapping", family_.attention_softcap);
  model_.logit_softcap = softcap("final_logit_softcapping", family_.logit_softcap);
  for (const std::string_view key : kRefusedKeys) keys.refuse(key);
  if (!family_.windows.supported) keys.refuse("attention.sliding_window");
  error_ = keys.error();
  return !keys.failed();
}

bool Describer::describe_rope() {
  ModelKeys keys(file_, family_.architecture);
  RopeDescriptions ropes =
      engine::describe_rope(keys, family_, model_.head_dim, model_.context_length);
  model_.rope = std::move(ropes.all);
  model_.windowed_rope = std::move(ropes.windowed);
  error_ = keys.error();
  return !keys.failed();
}

bool Describer::describe_embedding() {
  const auto found = by_name_.find("token_embd.weight");
  const bool flat = found != by_name_.end() && found->second->dimensions.size() < 2;
  const std::uint64_t rows =
      found == by_name_.end() ? 1 : (flat ? 1 : found->second->dimensions[1]);
  if (rows > kVocabularyMax || flat) {
    return fail(ErrorCode::kBadFormat, "tensor \"token_embd.weight\" has the shape " +
                                           shape_text(found->second->dimensions) +
                                           ", allowed are 2 dimensions, at most " +
                                           std::to_string(kVocabularyMax) + " tokens");
  }
  const GgufTensor* tensor = find("token_embd.weight", rows, model_.hidden);
  if (tensor == nullptr) return false;
  model_.vocabulary = static_cast<std::uint32_t>(rows);
  model_.embedding = {
      static_cast<TensorType>(tensor->type), tensor->file_offset, tensor->bytes / rows,
      model_.vocabulary,
      family_.scaled_embedding ? std::sqrt(static_cast<float>(model_.hidden)) : 1.0F};
  return true;
}

bool Describer::describe_layers() {
  // Layer by layer: a count above what the file holds ends at the first missing tensor.
  for (std::uint32_t i = 0; i < model_.layers; ++i) {
    if (!describe_layer(i)) return false;
  }
  return true;
}

bool Describer::describe_layer(std::uint32_t index) {
  const std::string prefix = "blk." + std::to_string(index) + ".";
  std::vector<const GgufTensor*> tensors;
  std::vector<LayerTensor> kinds;
  for (const LayerTensorSpec& spec : family_.layer_tensors) {
    const std::string name = prefix + spec.name;
    if (spec.optional && by_name_.find(name) == by_name_.end()) continue;
    const GgufTensor* tensor =
        find(name, tensor_size(spec.rows, model_), tensor_size(spec.columns, model_));
    if (tensor == nullptr) return false;
    tensors.push_back(tensor);
    kinds.push_back(spec.tensor);
  }
  UnitPlacement placement = place_unit(tensors, file_.file_bytes());
  LayerDescription layer;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    layer.tensors[static_cast<std::size_t>(kinds[i])] = view(*tensors[i], placement);
  }
  layer.unit_bytes = placement.unit_bytes;
  layer.tensor_bytes = placement.tensor_bytes;
  layer.ranges = std::move(placement.ranges);
  model_.layer.push_back(std::move(layer));
  return true;
}

bool Describer::describe_windows() {
  ModelKeys keys(file_, family_.architecture);
  engine::describe_windows(keys, family_, model_.layer);
  error_ = keys.error();
  return !keys.failed();
}

bool Describer::describe_head() {
  HeadDescription& head = model_.head;
  head.tied = family_.always_tied || by_name_.find("output.weight") == by_name_.end();
  const GgufTensor* norm = find("output_norm.weight", 1, model_.hidden);
  if (norm == nullptr) return false;
  const GgufTensor* output =
      find(head.tied ? "token_embd.weight" : "output.weight", model_.vocabulary, model_.hidden);
  if (output == nullptr) return false;
  UnitPlacement placement = place_unit({output, norm}, file_.file_bytes());
  head.output = view(*output, placement);
  head.norm = view(*norm, placement);
  head.unit_bytes = placement.unit_bytes;
  head.tensor_bytes = placement.tensor_bytes;
  head.ranges = std::move(placement.ranges);
  return true;
}

bool Describer::read_rope_factors() {
  const std::string name = "rope_freqs.weight";
  if (!family_.rope_factors || by_name_.find(name) == by_name_.end()) return true;
  const std::uint32_t count = model_.rope.dimensions / 2;
  const GgufTensor* tensor = find(name, 1, count);
  if (tensor == nullptr) return false;
  std::vector<float> factors(count);
  std::ifstream stream(file_.path(), std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(tensor->file_offset));
  stream.read(reinterpret_cast<char*>(factors.data()),
              static_cast<std::streamsize>(count * sizeof(float)));
  if (!stream) return fail(ErrorCode::kIo, "tensor " + quoted(name) + " could not be read");
  for (const float factor : factors) {
    if (std::isfinite(factor) && factor > 0) continue;
    return fail(ErrorCode::kBadFormat, "tensor " + quoted(name) + " contains " +
                                           std::to_string(factor) +
                                           ", allowed are numbers above 0");
  }
  apply_factors(model_.rope, factors);
  if (model_.windowed_rope) apply_factors(*model_.windowed_rope, factors);
  return true;
}

// A tensor nobody asked for would be left out of the computation: wrong answers instead of an
// error.
bool Describer::check_all_used() {
  for (const GgufTensor& tensor : file_.tensors()) {
    if (used_.count(tensor.name) != 0) continue;
    return fail(ErrorCode::kUnsupported,
                "tensor " + quoted(tensor.name) + " is not supported for architecture " +
                    std::string(family_.architecture) + " with " + std::to_string(model_.layers) +
                    " layers; supported: " + wanted_tensors());
  }
  return true;
}

}  // namespace

Result<ModelDescription> describe_model(const GgufFile& file) {
  auto architecture = file.text("general.architecture");
  if (!architecture) return std::move(architecture).error();
  const std::string where = file.path() + ": key \"general.architecture\"";
  if (!architecture->has_value()) {
    return Error{ErrorCode::kBadFormat, 0, "read model", where + " is missing"};
  }
  const ModelFamily* family = find_family(**architecture);
  if (family == nullptr) {
    return Error{ErrorCode::kUnsupported, 0, "read model",
                 where + ": architecture " + quoted(**architecture) +
                     " is not supported; supported: " + supported_architectures()};
  }
  if (file.tensors().empty()) {
    return Error{ErrorCode::kUnsupported, 0, "read model",
                 file.path() + ": no tensors (a vocabulary without weights)"};
  }
  return Describer(file, *family).run();
}

}  // namespace mzcache::engine
