// Metadata values: one key's value from the cursor, checked against the file before it is stored.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/gguf.h"
#include "engine/gguf_cursor.h"

namespace mzcache::engine {

// Value type ids of the format.
enum class GgufValueType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// Reads a length-prefixed string. `what` names it in errors: "value", "element 3".
[[nodiscard]] std::string_view read_gguf_string(GgufCursor& cursor, std::string_view what);
// Reads the type and the value of the cursor's subject (a key). Check cursor.failed() after.
[[nodiscard]] GgufValue read_gguf_value(GgufCursor& cursor);

}  // namespace mzcache::engine
