#include "synth/synth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <vector>

#include "synth/header.h"
#include "synth/output_file.h"
#include "synth/shapes.h"
#include "synth/vocabulary.h"
#include "synth/weights.h"

namespace mzcache::synth {
namespace {

using actors::TensorType;

constexpr std::size_t kWriteBytes = std::size_t{8} << 20;

struct NamedType {
  std::string_view name;
  TensorType type;
  std::uint32_t file_type;  // general.file_type, llama.cpp's id for "mostly this type"
};
constexpr NamedType kTypes[] = {
    {"f32", TensorType::kF32, 0},   {"f16", TensorType::kF16, 1},   {"bf16", TensorType::kBF16, 32},
    {"q8_0", TensorType::kQ8_0, 7}, {"q4_0", TensorType::kQ4_0, 2}, {"q4_1", TensorType::kQ4_1, 3},
};

constexpr std::string_view kRopeFreqs = "rope_freqs.weight";

std::vector<PlannedTensor> plan_tensors(const Shape& shape, TensorType type) {
  std::vector<PlannedTensor> tensors;
  const auto matrix = [&](std::string name, std::uint64_t rows, std::uint64_t columns) {
    const double deviation = 1.0 / std::sqrt(static_cast<double>(columns));
    tensors.push_back({std::move(name), type, rows, columns, deviation});
  };
  const auto vector = [&](std::string name, std::uint64_t size) {
    tensors.push_back({std::move(name), TensorType::kF32, 0, size, 0.1});
  };
  const std::uint64_t heads = std::uint64_t{shape.heads} * shape.head_dim;
  const std::uint64_t kv_heads = std::uint64_t{shape.kv_heads} * shape.head_dim;
  matrix("token_embd.weight", shape.vocabulary, shape.hidden);
  if (shape.rope_factors) vector(std::string(kRopeFreqs), shape.head_dim / 2);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    if (shape.pre_norms) vector(prefix + "attn_norm.weight", shape.hidden);
    matrix(prefix + "attn_q.weight", heads, shape.hidden);
    matrix(prefix + "attn_k.weight", kv_heads, shape.hidden);
    matrix(prefix + "attn_v.weight", kv_heads, shape.hidden);
    if (shape.head_norms) vector(prefix + "attn_q_norm.weight", shape.head_dim);
    if (shape.head_norms) vector(prefix + "attn_k_norm.weight", shape.head_dim);
    matrix(prefix + "attn_output.weight", shape.hidden, heads);
    if (shape.post_norms) vector(prefix + "post_attention_norm.weight", shape.hidden);
    if (shape.pre_norms) vector(prefix + "ffn_norm.weight", shape.hidden);
    matrix(prefix + "ffn_gate.weight", shape.feed_forward, shape.hidden);
    matrix(prefix + "ffn_up.weight", shape.feed_forward, shape.hidden);
    matrix(prefix + "ffn_down.weight", shape.hidden, shape.feed_forward);
    if (shape.post_norms) vector(prefix + "post_ffw_norm.weight", shape.hidden);
  }
  vector("output_norm.weight", shape.hidden);
  return tensors;
}

void add_architecture(Header& header, const Shape& shape) {
  const std::string prefix = std::string(shape.architecture) + ".";
  header.add(prefix + "context_length", shape.context_length);
  header.add(prefix + "embedding_length", shape.hidden);
  header.add(prefix + "block_count", shape.layers);
  header.add(prefix + "feed_forward_length", shape.feed_forward);
  header.add(prefix + "attention.head_count", shape.heads);
  header.add(prefix + "attention.head_count_kv", shape.kv_heads);
  header.add(prefix + "attention.key_length", shape.head_dim);
  header.add(prefix + "attention.value_length", shape.head_dim);
  header.add(prefix + "attention.layer_norm_rms_epsilon", shape.norm_epsilon);
  header.add(prefix + "rope.freq_base", shape.rope_base);
  header.add(prefix + "rope.dimension_count", shape.head_dim);
  header.add(prefix + "vocab_size", shape.vocabulary);
  if (shape.window != 0) header.add(prefix + "attention.sliding_window", shape.window);
  if (shape.attention_softcap != 0) {
    header.add(prefix + "attn_logit_softcapping", shape.attention_softcap);
  }
  if (shape.logit_softcap != 0) header.add(prefix + "final_logit_softcapping", shape.logit_softcap);
}

Header make_header(const Shape& shape, const NamedType& type, std::uint64_t seed) {
  Header header;
  header.add("general.architecture", shape.architecture);
  header.add("general.type", "model");
  header.add("general.name",
             "synthetic " + std::string(shape.name) + ", seed " + std::to_string(seed));
  header.add("general.file_type", type.file_type);
  header.add("general.quantization_version", std::uint32_t{2});
  add_architecture(header, shape);
  const Vocabulary vocabulary = make_vocabulary(shape.chat, shape.vocabulary);
  header.add("tokenizer.ggml.model", "gpt2");
  header.add("tokenizer.ggml.pre", shape.splitter);
  header.add("tokenizer.ggml.tokens", vocabulary.tokens);
  header.add("tokenizer.ggml.token_type", vocabulary.types);
  header.add("tokenizer.ggml.merges", vocabulary.merges);
  header.add("tokenizer.ggml.bos_token_id", vocabulary.bos);
  header.add("tokenizer.ggml.eos_token_id", vocabulary.eos);
  header.add("tokenizer.ggml.eot_token_id", vocabulary.end_of_turn);
  header.add("tokenizer.ggml.add_bos_token", vocabulary.add_bos);
  header.add("tokenizer.chat_template", vocabulary.chat_template);
  return header;
}

// Llama 3's scaling for contexts of 128k: long wavelengths are divided by 32, short ones stay,
// those between follow a ramp (factor 32, low 1, high 4, original context 8192).
std::vector<float> llama3_factors(const Shape& shape) {
  std::vector<float> factors;
  for (std::uint32_t i = 0; i < shape.head_dim / 2; ++i) {
    const double frequency =
        std::pow(static_cast<double>(shape.rope_base), -2.0 * i / shape.head_dim);
    const double turns = 8192.0 * frequency / (2.0 * std::numbers::pi);
    const double smooth = std::clamp((turns - 1.0) / (4.0 - 1.0), 0.0, 1.0);
    factors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / 32.0 + smooth)));
  }
  return factors;
}

std::vector<float> vector_values(const Shape& shape, const PlannedTensor& tensor,
                                 std::uint64_t seed) {
  if (tensor.name == kRopeFreqs) return llama3_factors(shape);
  std::vector<float> values(tensor.columns);
  WeightSource source(TensorType::kF32, tensor.deviation, seed);
  source.fill(std::as_writable_bytes(std::span(values)));
  for (float& value : values) value += 1.0F;
  return values;
}

Result<void> write_tensor(OutputFile& file, const Shape& shape, const PlannedTensor& tensor,
                          std::uint64_t seed, std::vector<std::byte>& buffer) {
  std::uint64_t left = tensor.bytes();
  const std::uint64_t padding = actors::align_up(left, kAlignment) - left;
  if (tensor.rows == 0) {
    const std::vector<float> values = vector_values(shape, tensor, seed);
    if (auto done = file.write(std::as_bytes(std::span(values))); !done) return done;
  } else {
    WeightSource source(tensor.type, tensor.deviation, seed);
    const std::uint64_t block_bytes = actors::tensor_type_traits(tensor.type).block_bytes;
    const std::uint64_t piece = kWriteBytes / block_bytes * block_bytes;
    while (left != 0) {
      const auto part = std::span(buffer).first(std::min(left, piece));
      source.fill(part);
      if (auto done = file.write(part); !done) return done;
      left -= part.size();
    }
  }
  static constexpr std::array<std::byte, kAlignment> kZeros{};
  return file.write(std::span(kZeros).first(padding));
}

struct Plan {
  const Shape* shape = nullptr;
  std::vector<PlannedTensor> tensors;
  std::string header;
  std::uint64_t file_bytes = 0;
};

Result<Plan> make_plan(const SynthOptions& options) {
  const auto shape = std::find_if(shapes().begin(), shapes().end(),
                                  [&](const Shape& one) { return one.name == options.arch; });
  if (shape == shapes().end()) {
    return Error{ErrorCode::kBadArgument, 0, "synth",
                 "arch \"" + options.arch + "\", allowed are " + architecture_names()};
  }
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const NamedType& one) { return one.name == options.type; });
  if (type == std::end(kTypes)) {
    return Error{ErrorCode::kBadArgument, 0, "synth",
                 "type \"" + options.type + "\", allowed are " + type_names()};
  }
  Plan plan;
  plan.shape = &*shape;
  plan.tensors = plan_tensors(*shape, type->type);
  plan.header = make_header(*shape, *type, options.seed).bytes(plan.tensors);
  plan.file_bytes = plan.header.size();
  for (const PlannedTensor& one : plan.tensors) {
    plan.file_bytes += actors::align_up(one.bytes(), kAlignment);
  }
  return plan;
}

}  // namespace

std::string architecture_names() {
  std::string names;
  for (const Shape& shape : shapes()) names += (names.empty() ? "" : " ") + std::string(shape.name);
  return names;
}

std::string type_names() {
  std::string names;
  for (const NamedType& type : kTypes) names += (names.empty() ? "" : " ") + std::string(type.name);
  return names;
}

Result<SynthHeader> synth_header(const SynthOptions& options) {
  const auto plan = make_plan(options);
  if (!plan) return plan.error();
  return SynthHeader{plan->header, plan->file_bytes};
}

Result<void> synthesize(const SynthOptions& options) {
  const auto plan = make_plan(options);
  if (!plan) return plan.error();
  OutputFile file(options.path);
  if (auto done = file.open(plan->file_bytes); !done) return done;
  if (auto done = file.write(std::as_bytes(std::span(plan->header))); !done) return done;
  std::vector<std::byte> buffer(kWriteBytes);
  for (std::size_t i = 0; i < plan->tensors.size(); ++i) {
    const std::uint64_t seed = options.seed * 0x100000001B3ULL + i;
    if (auto done = write_tensor(file, *plan->shape, plan->tensors[i], seed, buffer); !done) {
      return done;
    }
  }
  return file.commit();
}

}  // namespace mzcache::synth
