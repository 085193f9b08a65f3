// The parser behind GgufFile: from header bytes to checked metadata and tensor table.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf.h"

namespace mzcache::engine {

// Limits on what a file may ask for. Real files are far below: keys are under 100 bytes, headers
// under 20 MB (a vocabulary of 262,144 tokens with its merges).
inline constexpr std::uint64_t kGgufKeyBytesMax = 65535;
inline constexpr std::uint64_t kGgufTensorNameBytesMax = 64;
inline constexpr std::uint64_t kGgufDimensionsMax = 4;
inline constexpr std::uint64_t kGgufAlignmentMin = 8;  // by the specification
inline constexpr std::uint64_t kGgufAlignmentMax = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGgufHeaderBytesMax = std::uint64_t{256} << 20;
inline constexpr std::uint32_t kGgufTypeIdMax = 255;

struct GgufContents {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::uint64_t header_bytes = 0;  // magic to the end of the tensor table
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;
};

// One parse over the first `header.size()` bytes of a file of `file_bytes` bytes. Where the header
// goes on beyond those bytes but not beyond the file, the outcome is an error and `wanted_bytes`
// says how many leading bytes of the file the parser asks for (at least); 0 otherwise.
struct GgufParse {
  Result<GgufContents> contents;
  std::uint64_t wanted_bytes = 0;
};
[[nodiscard]] GgufParse parse_gguf(std::string_view name, std::string_view header,
                                   std::uint64_t file_bytes);

}  // namespace mzcache::engine
