// The parser and the description on the real model, whose layers do not lie in order and whose
// metadata has neither key_length nor RoPE scaling.
#include "engine/gguf.h"
#include "support/catch.h"
#include "support/model_path.h"

using namespace mzcache;
using namespace mzcache::engine;
using actors::LayerTensor;
using actors::TensorType;

TEST_CASE("the real model's metadata") {
  const auto file = GgufFile::open(test::model_path());
  REQUIRE(file.ok());
  CHECK(file->version() == 3);
  CHECK(file->file_bytes() == 98362432);
  CHECK(file->tensors().size() == 272);
  const auto tokens = file->texts("tokenizer.ggml.tokens");
  REQUIRE(tokens.ok());
  CHECK((*tokens)->size() == 49152);
}

TEST_CASE("the real model's description") {
  const auto file = GgufFile::open(test::model_path());
  REQUIRE(file.ok());
  const auto result = describe_model(*file);
  if (!result) FAIL(result.error().message());
  const ModelDescription& model = *result;
  CHECK(model.layers == 30);
  CHECK(model.hidden == 576);
  CHECK(model.feed_forward == 1536);
  CHECK(model.heads == 9);
  CHECK(model.kv_heads == 3);
  CHECK(model.head_dim == 64);
  CHECK(model.vocabulary == 49152);
  CHECK(model.context_length == 8192);
  CHECK(model.rope.base == 100000.0F);
  CHECK(model.rope.dimensions == 64);
  CHECK(model.rope.factors.empty());
  CHECK(model.head.tied);
  CHECK(model.head.output.type == TensorType::kQ8_0);
  CHECK(model.layer[0][LayerTensor::kAttnQ].type == TensorType::kQ4_1);
  CHECK(model.chunk_bytes() == 2U * 3 * 64 * 256 * 2);
  // Contiguous layers: one range each; the file's order is 0, 1, 10, 11, …
  for (const auto& layer : model.layer) CHECK(layer.ranges.size() == 1);
  CHECK(model.layer[10].ranges[0].file_offset < model.layer[2].ranges[0].file_offset);
  CHECK(model.weights_bytes() < model.file_bytes);
  CHECK(model.weights_bytes() > model.file_bytes * 9 / 10);
}
