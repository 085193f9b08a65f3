// What each family's files mean: defaults where they are silent, windows, rotations.
#include <cmath>
#include <string>
#include <vector>

#include "engine/gguf.h"
#include "support/catch.h"
#include "support/gguf_builder.h"

using namespace mzcache;
using namespace mzcache::engine;
using actors::LayerTensor;
using Pairing = actors::RopeDescription::Pairing;
using test::BuiltFile;

namespace {

Result<ModelDescription> describe(const BuiltFile& built) {
  const std::string bytes = built.bytes();
  auto file = GgufFile::parse("tiny.gguf", bytes, bytes.size());
  if (!file) return file.error();
  return describe_model(*file);
}

ModelDescription describe_well(const BuiltFile& built) {
  auto model = describe(built);
  if (!model) FAIL(model.error().message());
  return std::move(model).value();
}

// tiny_llama() as a file of another architecture, of so many layers: `vectors` (name, size) in each
// layer beside the matrices, and the norms in front only where the family has them.
BuiltFile tiny(const std::string& architecture,
               const std::vector<std::pair<std::string, std::uint64_t>>& vectors, int layers = 2,
               std::uint32_t heads = 4) {
  BuiltFile file;
  file.add_string("general.architecture", architecture);
  const auto key = [&](const char* name) { return architecture + "." + name; };
  file.add_u32(key("block_count"), static_cast<std::uint32_t>(layers));
  file.add_u32(key("context_length"), 512);
  file.add_u32(key("embedding_length"), 64);
  file.add_u32(key("feed_forward_length"), 96);
  file.add_u32(key("attention.head_count"), heads);
  file.add_u32(key("attention.key_length"), 16);
  file.add_u32(key("attention.head_count_kv"), 2);
  file.add_f32(key("attention.layer_norm_rms_epsilon"), 1e-6F);
  file.add_f32_tensor("token_embd.weight", {64, 48});
  file.add_f32_tensor("output_norm.weight", {64});
  for (int layer = 0; layer < layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    for (const auto& [name, size] : vectors) file.add_f32_tensor(prefix + name, {size});
    file.add_f32_tensor(prefix + "attn_q.weight", {64, heads * 16});
    file.add_f32_tensor(prefix + "attn_k.weight", {64, 32});
    file.add_f32_tensor(prefix + "attn_v.weight", {64, 32});
    file.add_f32_tensor(prefix + "attn_output.weight", {heads * 16, 64});
    file.add_f32_tensor(prefix + "ffn_gate.weight", {64, 96});
    file.add_f32_tensor(prefix + "ffn_up.weight", {64, 96});
    file.add_f32_tensor(prefix + "ffn_down.weight", {96, 64});
  }
  return file;
}

using Vectors = std::vector<std::pair<std::string, std::uint64_t>>;
const Vectors kNorms = {{"attn_norm.weight", 64}, {"ffn_norm.weight", 64}};
const Vectors kPostNorms = {{"post_attention_norm.weight", 64}, {"post_ffw_norm.weight", 64}};
const Vectors kHeadNorms = {{"attn_q_norm.weight", 16}, {"attn_k_norm.weight", 16}};
const Vectors kBiases = {{"attn_q.bias", 64}, {"attn_k.bias", 32}, {"attn_v.bias", 32}};

Vectors operator+(Vectors a, const Vectors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::uint32_t> windows(const ModelDescription& model) {
  std::vector<std::uint32_t> out;
  for (const auto& layer : model.layer) out.push_back(layer.window);
  return out;
}

std::vector<bool> rotating(const ModelDescription& model) {
  std::vector<bool> out;
  for (const auto& layer : model.layer) out.push_back(model.rope_of(layer).dimensions != 0);
  return out;
}

void refused(const BuiltFile& built, const std::vector<std::string>& words) {
  const auto model = describe(built);
  REQUIRE_FALSE(model.ok());
  for (const std::string& word : words) {
    INFO(model.error().message());
    CHECK(model.error().message().find(word) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("families: llama with a window in the metadata, biases where there are some") {
  BuiltFile file = tiny("llama", kNorms + kBiases, 3);
  CHECK(windows(describe_well(file)) == std::vector<std::uint32_t>{0, 0, 0});
  file.add_u32("llama.attention.sliding_window", 100);
  const ModelDescription model = describe_well(file);
  CHECK(windows(model) == std::vector<std::uint32_t>{100, 100, 100});
  CHECK(model.layer[0][LayerTensor::kAttnKBias].columns == 32);
  CHECK(model.rope.pairing == Pairing::kInterleaved);
  CHECK_FALSE(model.windowed_rope);
}

TEST_CASE("families: a window's pattern is a number or a list") {
  BuiltFile numbered = tiny("llama", kNorms, 5);
  numbered.add_u32("llama.attention.sliding_window", 7);
  BuiltFile listed = numbered;
  numbered.add_u32("llama.attention.sliding_window_pattern", 3);
  CHECK(windows(describe_well(numbered)) == std::vector<std::uint32_t>{7, 7, 0, 7, 7});
  listed.add(
      "llama.attention.sliding_window_pattern", 9,
      test::raw<std::uint32_t>(7) + test::raw<std::uint64_t>(5) + std::string("\1\0\0\1\0", 5));
  CHECK(windows(describe_well(listed)) == std::vector<std::uint32_t>{7, 0, 0, 7, 0});
}

TEST_CASE("families: qwen2 has biases, qwen3 head norms, and neither has windows") {
  BuiltFile qwen2 = tiny("qwen2", kNorms + kBiases);
  const ModelDescription model = describe_well(qwen2);
  CHECK(model.rope.pairing == Pairing::kSplitHalves);
  CHECK(model.layer[1][LayerTensor::kAttnQBias].present());
  refused(tiny("qwen2", kNorms), {"blk.0.attn_q.bias", "missing", "attn_v.bias"});
  qwen2.add_u32("qwen2.attention.sliding_window", 64);
  refused(qwen2, {"qwen2.attention.sliding_window", "supported: absent or 0"});

  BuiltFile qwen3 = tiny("qwen3", kNorms + kHeadNorms);
  CHECK(describe_well(qwen3).layer[0][LayerTensor::kAttnKNorm].columns == 16);
  CHECK(describe_well(qwen3).rope.pairing == Pairing::kSplitHalves);
  qwen3.add_f32_tensor("rope_freqs.weight", {8});
  refused(qwen3, {"rope_freqs.weight", "not supported for architecture qwen3"});
}

TEST_CASE("families: smollm3 leaves RoPE out in every fourth layer") {
  const ModelDescription model = describe_well(tiny("smollm3", kNorms, 9));
  CHECK(rotating(model) ==
        std::vector<bool>{true, true, true, false, true, true, true, false, true});
  CHECK(model.rope.pairing == Pairing::kInterleaved);
}

TEST_CASE("families: exaone4 mixes where the file says so, or has 64 layers") {
  const Vectors vectors = kPostNorms + kHeadNorms;
  const ModelDescription small = describe_well(tiny("exaone4", vectors, 4));
  CHECK(windows(small) == std::vector<std::uint32_t>(4, 0));
  CHECK(rotating(small) == std::vector<bool>(4, true));

  BuiltFile mixed = tiny("exaone4", vectors, 5);
  mixed.add_u32("exaone4.attention.sliding_window", 32);
  CHECK(windows(describe_well(mixed)) == std::vector<std::uint32_t>{32, 32, 32, 0, 32});
  CHECK(rotating(describe_well(mixed)) == std::vector<bool>{true, true, true, false, true});

  const ModelDescription large = describe_well(tiny("exaone4", vectors, 64));
  CHECK(large.layer[62].window == 4096);
  CHECK(large.layer[63].window == 0);
  CHECK_FALSE(large.layer[63].rope);
}

TEST_CASE("families: gemma2's caps, window and scales") {
  BuiltFile file = tiny("gemma2", kNorms + kPostNorms, 3);
  const ModelDescription model = describe_well(file);
  CHECK(windows(model) == std::vector<std::uint32_t>{4096, 0, 4096});
  CHECK(rotating(model) == std::vector<bool>(3, true));
  CHECK(model.attention_softcap == 50.0F);
  CHECK(model.logit_softcap == 30.0F);
  CHECK(model.embedding.scale == 8.0F);
  CHECK(model.activation == actors::Activation::kGelu);
  CHECK(model.attention_scale == 0.25F);
  CHECK_FALSE(model.windowed_rope);
  // The largest of them scales by hidden ÷ heads instead of the head's size.
  BuiltFile largest = tiny("gemma2", kNorms + kPostNorms, 46, 8);
  largest.add_f32("gemma2.attn_logit_softcapping", 0.0F);
  CHECK(describe_well(largest).attention_scale == 1.0F / std::sqrt(8.0F));
  CHECK(describe_well(largest).attention_softcap == 0.0F);
  file.add_f32_tensor("output.weight", {64, 48});
  refused(file, {"output.weight", "not supported"});
}

TEST_CASE("families: gemma3 rotates by two bases, the local one unscaled") {
  BuiltFile file = tiny("gemma3", kNorms + kPostNorms + kHeadNorms, 7);
  file.add_f32("gemma3.rope.freq_base", 1e6F);
  file.add_string("gemma3.rope.scaling.type", "linear");
  file.add_f32("gemma3.rope.scaling.factor", 8.0F);
  CHECK(windows(describe_well(file)) == std::vector<std::uint32_t>(7, 0));
  file.add_u32("gemma3.attention.sliding_window", 16);
  const ModelDescription model = describe_well(file);
  CHECK(windows(model) == std::vector<std::uint32_t>{16, 16, 16, 16, 16, 0, 16});
  CHECK(model.attention_softcap == 0.0F);
  CHECK(model.logit_softcap == 0.0F);
  CHECK(model.rope_of(model.layer[0]).base == 10000.0F);
  CHECK(model.rope_of(model.layer[0]).scale == 1.0F);
  CHECK(model.rope_of(model.layer[5]).base == 1e6F);
  CHECK(model.rope_of(model.layer[5]).scale == 0.125F);
  file.add_f32("gemma3.rope.freq_base_swa", 20000.0F);
  const ModelDescription told = describe_well(file);
  CHECK(told.rope_of(told.layer[0]).base == 20000.0F);
}

TEST_CASE("rope scaling: a factor without a type is linear, the old key counts, none is none") {
  BuiltFile old = tiny("llama", kNorms);
  old.add_f32("llama.rope.scale_linear", 4.0F);
  CHECK(describe_well(old).rope.scale == 0.25F);
  old.add_f32("llama.rope.scaling.factor", 2.0F);
  CHECK(describe_well(old).rope.scale == 0.5F);
  old.add_string("llama.rope.scaling.type", "none");
  CHECK(describe_well(old).rope.scale == 1.0F);
}

TEST_CASE("rope scaling: yarn keeps fast dimensions and interpolates slow ones") {
  BuiltFile file = tiny("llama", kNorms);
  file.add_string("llama.rope.scaling.type", "yarn");
  file.add_f32("llama.rope.scaling.factor", 4.0F);
  file.add_u32("llama.rope.scaling.original_context_length", 128);
  const ModelDescription model = describe_well(file);
  const auto& rope = model.rope;
  REQUIRE(rope.factors.size() == 8);
  // By hand: 16 · ln(128 / (32 · 2π)) / (2 ln 10⁴) is below 0, so 0; with one turn 2.6, so 3.
  CHECK(rope.factors[0] == 1.0F);
  CHECK(std::abs(rope.factors[1] - 1.0F / (2.0F / 3 + 0.25F / 3)) < 1e-6F);
  CHECK(std::abs(rope.factors[2] - 1.0F / (1.0F / 3 + 0.25F * 2 / 3)) < 1e-6F);
  for (std::size_t i = 3; i < 8; ++i) CHECK(rope.factors[i] == 4.0F);
  CHECK(rope.scale == 1.0F);
  CHECK(std::abs(rope.magnitude - (1 + 0.1F * std::log(4.0F))) < 1e-6F);
}
