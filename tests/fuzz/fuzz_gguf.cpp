// Any bytes are safe for the parser and the description: an error or a consistent model.
// libFuzzer's entry function, also called by fuzz_gguf_replay.cpp.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/gguf.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz_gguf: %s\n", what);
  std::abort();
}

void check_description(const mzcache::engine::ModelDescription& model, std::uint64_t file_bytes) {
  require(model.layer.size() == model.layers, "a layer is missing");
  for (const auto& layer : model.layer) {
    for (const auto& range : layer.ranges) {
      require(range.file_offset + range.bytes <= file_bytes, "a range leaves the file");
      require(range.buffer_offset + range.bytes <= layer.unit_bytes, "a range leaves its unit");
    }
    for (const auto& view : layer.tensors) {
      if (!view.present()) continue;
      require(view.unit_offset + view.rows * view.row_bytes <= layer.unit_bytes,
              "a tensor leaves its unit");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The first byte says how much larger the file is than its header, so that headers without data
  // get past the checks of tensors.
  if (size == 0) return 0;
  const std::string_view header(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::uint64_t file_bytes = header.size() + (std::uint64_t{data[0]} << 12);
  const auto file = mzcache::engine::GgufFile::parse("fuzz.gguf", header, file_bytes);
  if (!file) {
    require(!file.error().message().empty(), "an error without a message");
    return 0;
  }
  for (const auto& tensor : file->tensors()) {
    require(tensor.file_offset + tensor.bytes <= file_bytes, "a tensor leaves the file");
  }
  const auto model = mzcache::engine::describe_model(*file);
  if (model) check_description(*model, file_bytes);
  return 0;
}
