// Every tensor type the format knows, supported by the kernels or not: sizes are needed to check
// offsets, names to speak of a type.
#pragma once

#include <cstdint>
#include <string>

namespace mzcache::engine {

struct GgufTypeInfo {
  const char* name = nullptr;      // "q4_1"; nullptr where the id is unknown
  std::uint32_t block_values = 0;  // 0 where unknown
  std::uint32_t block_bytes = 0;
};

// Constant time, thread-safe.
[[nodiscard]] GgufTypeInfo gguf_type_info(std::uint32_t type) noexcept;
// "q4_1", or "type 99" for an unknown id.
[[nodiscard]] std::string gguf_type_name(std::uint32_t type);
// "f32 f16 q4_0 …": the types that can be computed.
[[nodiscard]] std::string supported_type_names();

}  // namespace mzcache::engine
