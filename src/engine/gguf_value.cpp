#include "engine/gguf_value.h"

#include <algorithm>
#include <type_traits>

#include "engine/gguf_text.h"

namespace mzcache::engine {
namespace {

// An array may take more memory than it takes in the file (a string of four bytes becomes an object
// of 32). It may not take more than the file's size or this, whichever is larger; the largest
// vocabularies there are take a quarter of it.
constexpr std::uint64_t kArrayMemoryBytesMin = std::uint64_t{64} << 20;

template <class Wide, class T>
std::vector<Wide> widen(std::string_view bytes) {
  std::vector<Wide> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value{};
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): the sign belongs to the value
    values[i] = static_cast<Wide>(value);
  }
  return values;
}

// Checks an array's count against the rest of the file and against memory.
bool check_count(GgufCursor& cursor, std::uint64_t count, std::uint64_t file_bytes_each,
                 std::uint64_t memory_bytes_each) {
  if (cursor.failed()) return false;
  const std::uint64_t count_max = cursor.left() / file_bytes_each;
  if (count > count_max) {
    return cursor.fail("array of " + std::to_string(count) + " elements, but at most " +
                       std::to_string(count_max) + " fit into the rest of the file");
  }
  const std::uint64_t memory_max = std::max(cursor.file_bytes(), kArrayMemoryBytesMin);
  if (count > memory_max / memory_bytes_each) {
    return cursor.fail("array of " + std::to_string(count) + " elements would take more than " +
                       std::to_string(memory_max) + " bytes of memory");
  }
  return true;
}

template <class T>
GgufValue read_numbers(GgufCursor& cursor, std::uint64_t count) {
  using Wide =
      std::conditional_t<std::is_floating_point_v<T>, double,
                         std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;
  if (!check_count(cursor, count, sizeof(T), sizeof(Wide))) return {};
  return widen<Wide, T>(cursor.take(count * sizeof(T), "array"));
}

bool read_bool(GgufCursor& cursor, std::uint8_t byte) {
  if (byte > 1) cursor.fail("boolean " + std::to_string(byte) + ", allowed are 0 and 1");
  return byte == 1;
}

GgufValue read_bools(GgufCursor& cursor, std::uint64_t count) {
  if (!check_count(cursor, count, 1, 1)) return {};
  const std::string_view bytes = cursor.take(count, "array");
  std::vector<bool> values(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    values[i] = read_bool(cursor, static_cast<std::uint8_t>(bytes[i]));
  }
  return values;
}

// Walks the strings once before storing any: what is allocated then is there in full.
GgufValue read_strings(GgufCursor& cursor, std::uint64_t count) {
  if (!check_count(cursor, count, sizeof(std::uint64_t), sizeof(std::string))) return {};
  GgufCursor walker = cursor;
  for (std::uint64_t i = 0; i < count; ++i) {
    (void)read_gguf_string(walker, "element");
    if (walker.failed()) {
      walker.add_detail("element " + std::to_string(i) + " of " + std::to_string(count));
      cursor = walker;
      return {};
    }
  }
  std::vector<std::string> values;
  values.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto length = cursor.read<std::uint64_t>("element");
    values.emplace_back(cursor.take(length, "element"));
  }
  return values;
}

GgufValue read_array(GgufCursor& cursor) {
  const auto type = cursor.read<std::uint32_t>("array element type");
  const auto count = cursor.read<std::uint64_t>("array count");
  if (cursor.failed()) return {};
  switch (static_cast<GgufValueType>(type)) {
    case GgufValueType::kU8:
      return read_numbers<std::uint8_t>(cursor, count);
    case GgufValueType::kI8:
      return read_numbers<std::int8_t>(cursor, count);
    case GgufValueType::kU16:
      return read_numbers<std::uint16_t>(cursor, count);
    case GgufValueType::kI16:
      return read_numbers<std::int16_t>(cursor, count);
    case GgufValueType::kU32:
      return read_numbers<std::uint32_t>(cursor, count);
    case GgufValueType::kI32:
      return read_numbers<std::int32_t>(cursor, count);
    case GgufValueType::kU64:
      return read_numbers<std::uint64_t>(cursor, count);
    case GgufValueType::kI64:
      return read_numbers<std::int64_t>(cursor, count);
    case GgufValueType::kF32:
      return read_numbers<float>(cursor, count);
    case GgufValueType::kF64:
      return read_numbers<double>(cursor, count);
    case GgufValueType::kBool:
      return read_bools(cursor, count);
    case GgufValueType::kString:
      return read_strings(cursor, count);
    case GgufValueType::kArray:
      break;
  }
  cursor.fail("array element type " + std::to_string(type) +
              ", allowed are 0 to 12 without 9 (arrays of arrays)");
  return {};
}

}  // namespace

std::string_view read_gguf_string(GgufCursor& cursor, std::string_view what) {
  const auto length = cursor.read<std::uint64_t>(what);
  const std::string_view text = cursor.take(length, what);
  if (cursor.failed()) return {};
  if (const std::size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    cursor.fail(std::string(what) + " " + quoted(text) + " is not UTF-8 at byte " +
                std::to_string(bad));
    return {};
  }
  return text;
}

GgufValue read_gguf_value(GgufCursor& cursor) {
  const auto type = cursor.read<std::uint32_t>("value type");
  if (cursor.failed()) return {};
  switch (static_cast<GgufValueType>(type)) {
    case GgufValueType::kU8:
      return std::uint64_t{cursor.read<std::uint8_t>("value")};
    case GgufValueType::kU16:
      return std::uint64_t{cursor.read<std::uint16_t>("value")};
    case GgufValueType::kU32:
      return std::uint64_t{cursor.read<std::uint32_t>("value")};
    case GgufValueType::kU64:
      return cursor.read<std::uint64_t>("value");
    case GgufValueType::kI8:
      return std::int64_t{cursor.read<std::int8_t>("value")};
    case GgufValueType::kI16:
      return std::int64_t{cursor.read<std::int16_t>("value")};
    case GgufValueType::kI32:
      return std::int64_t{cursor.read<std::int32_t>("value")};
    case GgufValueType::kI64:
      return cursor.read<std::int64_t>("value");
    case GgufValueType::kF32:
      return double{cursor.read<float>("value")};
    case GgufValueType::kF64:
      return cursor.read<double>("value");
    case GgufValueType::kBool:
      return read_bool(cursor, cursor.read<std::uint8_t>("value"));
    case GgufValueType::kString:
      return std::string(read_gguf_string(cursor, "value"));
    case GgufValueType::kArray:
      return read_array(cursor);
  }
  cursor.fail("value type " + std::to_string(type) + ", allowed are 0 to 12");
  return {};
}

}  // namespace mzcache::engine
