#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/describe_model_units.h"
#include "engine/gguf.h"
#include "support/catch.h"
#include "support/gguf_builder.h"

using namespace mzcache;
using namespace mzcache::engine;
using actors::kBlockAlignment;
using actors::LayerTensor;
using actors::TensorType;
using test::BuiltFile;
using test::tiny_llama;

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

// What a restore does: the ranges of `file` in a buffer.
std::string fill(const std::string& file, const std::vector<actors::FileRange>& ranges,
                 std::uint64_t unit_bytes) {
  std::string buffer(unit_bytes, '?');
  for (const auto& range : ranges) {
    REQUIRE(range.file_offset % kBlockAlignment == 0);
    REQUIRE(range.buffer_offset % kBlockAlignment == 0);
    REQUIRE((range.bytes % kBlockAlignment == 0 || range.file_offset + range.bytes == file.size()));
    REQUIRE(range.buffer_offset + range.bytes <= unit_bytes);
    buffer.replace(range.buffer_offset, range.bytes, file, range.file_offset, range.bytes);
  }
  return buffer;
}

}  // namespace

TEST_CASE("sizes and defaults of architecture llama") {
  const ModelDescription model = describe_well(tiny_llama());
  CHECK(model.architecture == "llama");
  CHECK(model.name == "tiny");
  CHECK(model.layers == 2);
  CHECK(model.hidden == 64);
  CHECK(model.feed_forward == 96);
  CHECK(model.heads == 4);
  CHECK(model.kv_heads == 2);
  CHECK(model.head_dim == 16);  // no key_length: hidden / heads
  CHECK(model.vocabulary == 48);
  CHECK(model.context_length == 512);
  CHECK(model.norm_epsilon == 1e-6F);
  CHECK(model.attention_scale == 0.25F);
  CHECK(model.rope.pairing == actors::RopeDescription::Pairing::kInterleaved);
  CHECK(model.rope.dimensions == 16);
  CHECK(model.rope.base == 5000.0F);
  CHECK(model.rope.factors.empty());
  CHECK(model.head.tied);
  CHECK(model.embedding.rows == 48);
  CHECK(model.embedding.row_bytes == 256);
  CHECK(model.weights_bytes() ==
        model.head.unit_bytes + model.layer[0].unit_bytes + model.layer[1].unit_bytes);
}

TEST_CASE("keys that are absent take the documented defaults") {
  BuiltFile built = tiny_llama();
  std::erase_if(built.keys, [](const test::BuiltKey& key) {
    return key.name == "llama.attention.layer_norm_rms_epsilon" ||
           key.name == "llama.rope.freq_base" || key.name == "general.name";
  });
  built.key_count = built.keys.size();
  built.add_string("llama.rope.scaling.type", "none");
  built.add_u32("llama.expert_count", 0);
  const ModelDescription model = describe_well(built);
  CHECK(model.norm_epsilon == 1e-5F);
  CHECK(model.rope.base == 10000.0F);
  CHECK(model.name.empty());
}

TEST_CASE("an absent head_count_kv means as many as heads") {
  BuiltFile built = tiny_llama();
  std::erase_if(built.keys, [](const test::BuiltKey& key) {
    return key.name == "llama.attention.head_count_kv";
  });
  built.key_count = built.keys.size();
  const auto model = describe(built);
  REQUIRE_FALSE(model.ok());  // K and V have the shape of two heads
  CHECK(model.error().message().find("blk.0.attn_k.weight") != std::string::npos);
}

TEST_CASE("ranges fill units with every tensor's bytes") {
  for (const bool tied : {true, false}) {
    const BuiltFile built = tiny_llama(tied);
    const std::string bytes = built.bytes();
    const auto file = GgufFile::parse("tiny.gguf", bytes, bytes.size());
    const ModelDescription model = describe_well(built);
    const auto check = [&](const std::string& buffer, const actors::TensorView& view,
                           const std::string& name) {
      INFO(name);
      const GgufTensor* tensor = file->tensor(name);
      REQUIRE(tensor != nullptr);
      REQUIRE(view.present());
      CHECK(view.row_bytes * view.rows == tensor->bytes);
      CHECK(view.unit_offset % kBlockAlignment == tensor->file_offset % kBlockAlignment);
      CHECK(buffer.substr(view.unit_offset, tensor->bytes) ==
            bytes.substr(tensor->file_offset, tensor->bytes));
    };
    for (std::uint32_t i = 0; i < model.layers; ++i) {
      const auto& layer = model.layer[i];
      CHECK(layer.unit_bytes % kBlockAlignment == 0);
      CHECK(layer.tensor_bytes == 4U * (64 * 64 * 2 + 64 * 32 * 2 + 64 * 96 * 3 + 64 * 2));
      const std::string buffer = fill(bytes, layer.ranges, layer.unit_bytes);
      const std::string prefix = "blk." + std::to_string(i) + ".";
      check(buffer, layer[LayerTensor::kAttnNorm], prefix + "attn_norm.weight");
      check(buffer, layer[LayerTensor::kAttnQ], prefix + "attn_q.weight");
      check(buffer, layer[LayerTensor::kAttnK], prefix + "attn_k.weight");
      check(buffer, layer[LayerTensor::kAttnV], prefix + "attn_v.weight");
      check(buffer, layer[LayerTensor::kAttnOutput], prefix + "attn_output.weight");
      check(buffer, layer[LayerTensor::kFfnNorm], prefix + "ffn_norm.weight");
      check(buffer, layer[LayerTensor::kFfnGate], prefix + "ffn_gate.weight");
      check(buffer, layer[LayerTensor::kFfnUp], prefix + "ffn_up.weight");
      check(buffer, layer[LayerTensor::kFfnDown], prefix + "ffn_down.weight");
      CHECK(layer[LayerTensor::kFfnDown].rows == 64);
      CHECK(layer[LayerTensor::kFfnDown].columns == 96);
      CHECK_FALSE(layer[LayerTensor::kAttnQNorm].present());
    }
    const std::string buffer = fill(bytes, model.head.ranges, model.head.unit_bytes);
    check(buffer, model.head.output, tied ? "token_embd.weight" : "output.weight");
    check(buffer, model.head.norm, "output_norm.weight");
    CHECK(model.head.tied == tied);
  }
}

TEST_CASE("units: neighbours merge, gaps stay apart, the last range ends with the file") {
  const GgufTensor a{"a", 0, {1}, 5000, 100};
  const GgufTensor b{"b", 0, {1}, 8192, 4096};    // touches a's rounded end
  const GgufTensor c{"c", 0, {1}, 40000, 12000};  // its last block is cut off by the file's end
  const UnitPlacement unit = place_unit({&c, &a, &b}, 52100);
  REQUIRE(unit.ranges.size() == 2);
  CHECK(unit.ranges[0].file_offset == 4096);
  CHECK(unit.ranges[0].bytes == 8192);
  CHECK(unit.ranges[1].file_offset == 36864);
  CHECK(unit.ranges[1].buffer_offset == 8192);
  CHECK(unit.ranges[1].bytes == 52100 - 36864);
  CHECK(unit.unit_bytes == 8192 + 16384);
  CHECK(unit.tensor_bytes == 100 + 4096 + 12000);
  CHECK(unit_offset(unit, a) == 5000 - 4096);
  CHECK(unit_offset(unit, b) == 4096);
  CHECK(unit_offset(unit, c) == 8192 + 40000 - 36864);
}

TEST_CASE("rope_freqs become divisors of the description") {
  BuiltFile built = tiny_llama();
  built.add_f32_tensor("rope_freqs.weight", {8});
  const std::string bytes = built.bytes();
  const std::string path =
      (std::filesystem::temp_directory_path() / ("mzcache-rope-" + std::to_string(::getpid())))
          .string();
  std::ofstream(path, std::ios::binary) << bytes;
  const auto file = GgufFile::open(path);
  REQUIRE(file.ok());
  const auto model = describe_model(*file);
  std::filesystem::remove(path);
  if (!model) FAIL(model.error().message());
  REQUIRE(model->rope.factors.size() == 8);
  const GgufTensor* tensor = file->tensor("rope_freqs.weight");
  for (std::size_t i = 0; i < 8; ++i) {
    float wanted = 0;
    std::memcpy(&wanted, bytes.data() + tensor->file_offset + 4 * i, 4);
    CHECK(model->rope.factors[i] == wanted);
  }
  CHECK_FALSE(model->head.rope_freqs.present());
  // Gone by now: an error, not factors of zero.
  const auto gone = describe_model(*file);
  REQUIRE_FALSE(gone.ok());
  CHECK(gone.error().code == ErrorCode::kIo);
}

TEST_CASE("traits cover exactly the supported types") {
  int supported = 0;
  for (std::uint32_t id = 0; id < 64; ++id) {
    const auto traits = actors::tensor_type_traits(static_cast<TensorType>(id));
    if (traits.block_bytes != 0) ++supported;
  }
  CHECK(supported == 11);
  CHECK(actors::tensor_type_traits(TensorType::kQ6_K).block_bytes == 210);
}

TEST_CASE("the committed golden models are described") {
  int described = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(MZCACHE_SOURCE_DIR "/tests/golden/models")) {
    if (entry.path().extension() != ".gguf") continue;
    INFO(entry.path().string());
    const auto file = GgufFile::open(entry.path().string());
    if (!file) FAIL(file.error().message());
    const auto model = describe_model(*file);
    if (!model) FAIL(model.error().message());
    CHECK(model->vocabulary == 320);
    const bool factors = file->tensor("rope_freqs.weight") != nullptr;
    const bool yarn = model->name.find("yarn") != std::string::npos;
    CHECK(model->rope.factors.size() == (factors || yarn ? model->head_dim / 2 : 0));
    CHECK(model->head.tied == (file->tensor("output.weight") == nullptr));
    ++described;
  }
  CHECK(described == 26);
}
