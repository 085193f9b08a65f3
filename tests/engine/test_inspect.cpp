#include "engine/inspect.h"
#include "support/catch.h"
#include "support/gguf_builder.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

ModelInfo inspect(const test::BuiltFile& built) {
  const std::string bytes = built.bytes();
  const auto file = GgufFile::parse("tiny.gguf", bytes, bytes.size());
  if (!file) FAIL(file.error().message());
  auto info = inspect_model(*file);
  if (!info) FAIL(info.error().message());
  return std::move(info).value();
}

}  // namespace

TEST_CASE("inspect a model that can be computed") {
  const ModelInfo info = inspect(test::tiny_llama());
  CHECK(info.parameters == 64 * 48 + 64 + 2 * (64 * 64 * 2 + 64 * 32 * 2 + 64 * 96 * 3 + 64 * 2));
  CHECK(info.tensor_bytes == info.parameters * 4);
  CHECK(info.kv_bytes_per_token == 2U * 2 * 2 * 16 * 2);
  REQUIRE(info.units);
  CHECK(info.units->units.size() == 3);
  CHECK(info.units->units[2].kind == "head");
  CHECK(info.units->units[2].layer == 2);
  CHECK(info.units->kv_chunk_bytes == 256U * 2 * 2 * 16 * 2);
  CHECK(info.units->tied_head);
  REQUIRE(info.tensor_types.size() == 1);
  CHECK(info.tensor_types[0].type == "f32");
}

TEST_CASE("inspect an architecture that cannot be computed: units are absent with the reason") {
  test::BuiltFile built = test::tiny_llama();
  built.key("general.architecture").value = test::raw_string("other");
  built.add_u32("other.block_count", 2);
  built.add_u32("other.attention.key_length", 16);
  built.add_u32("other.attention.value_length", 8);
  built.add("other.attention.head_count_kv", 9,
            test::raw<std::uint32_t>(4) + test::raw<std::uint64_t>(2) +
                test::raw<std::uint32_t>(2) + test::raw<std::uint32_t>(1));
  const ModelInfo info = inspect(built);
  CHECK_FALSE(info.units);
  CHECK(info.units_absent.find("supported: llama") != std::string::npos);
  CHECK(info.sizes.kv_heads == 2U);
  CHECK(info.kv_bytes_per_token == 3U * (16 + 8) * 2);
}

TEST_CASE("inspect a vocabulary without weights, and a file that says nothing") {
  test::BuiltFile built = test::tiny_llama();
  built.tensors.clear();
  built.tensor_count = 0;
  const ModelInfo info = inspect(built);
  CHECK(info.sizes.vocabulary == 48U);
  CHECK(info.units_absent.find("no tensors") != std::string::npos);
  const ModelInfo nothing = inspect(test::BuiltFile{});
  CHECK_FALSE(nothing.kv_bytes_per_token);
  CHECK_FALSE(nothing.units_absent.empty());
  CHECK_FALSE(nothing.sizes.layers);
}

TEST_CASE("inspect tells each layer's window") {
  test::BuiltFile built = test::tiny_llama();
  built.add_u32("llama.attention.sliding_window", 100);
  built.add_u32("llama.attention.sliding_window_pattern", 2);
  const ModelInfo info = inspect(built);
  REQUIRE(info.units);
  CHECK(info.units->units[0].window == 100);
  CHECK(info.units->units[1].window == 0);
}
