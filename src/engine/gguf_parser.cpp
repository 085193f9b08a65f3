#include "engine/gguf_parser.h"

#include <algorithm>
#include <utility>

#include "actors/units.h"
#include "engine/gguf_cursor.h"
#include "engine/gguf_text.h"
#include "engine/gguf_types.h"
#include "engine/gguf_value.h"

namespace mzcache::engine {
namespace {

constexpr std::string_view kMagic = "GGUF";
// The least a key (length, type, one byte) and a tensor (length, one byte of name, one dimension,
// type, offset) take: what counts are checked against.
constexpr std::uint64_t kKeyBytesMin = 8 + 1 + 4 + 1;
constexpr std::uint64_t kTensorBytesMin = 8 + 1 + 4 + 8 + 4 + 8;

struct Counts {
  std::uint64_t tensors = 0;
  std::uint64_t keys = 0;
};

bool check_count(GgufCursor& cursor, std::string_view what, std::uint64_t count,
                 std::uint64_t bytes_each) {
  if (cursor.failed()) return false;
  const std::uint64_t count_max = cursor.left() / bytes_each;
  if (count <= count_max) return true;
  return cursor.fail(std::string(what) + " " + std::to_string(count) + ", but at most " +
                     std::to_string(count_max) + " fit into the file's " +
                     std::to_string(cursor.file_bytes()) + " bytes");
}

Counts read_preamble(GgufCursor& cursor, GgufContents& contents) {
  cursor.set_subject("header");
  const std::string_view magic = cursor.take(kMagic.size(), "magic");
  if (!cursor.failed() && magic != kMagic) {
    cursor.fail(
        "magic " + quoted(magic) +
        ", a GGUF file starts with \"GGUF\" (llama.cpp's convert_hf_to_gguf.py makes one of other "
        "formats)");
  }
  contents.version = cursor.read<std::uint32_t>("version");
  if (!cursor.failed() && contents.version != 2 && contents.version != 3) {
    const bool swapped = contents.version != 0 && (contents.version & 0xFFFFU) == 0;
    cursor.fail("version " + std::to_string(contents.version) +
                    (swapped ? " (a big-endian file)" : "") +
                    ", supported are 2 and 3, little-endian",
                ErrorCode::kUnsupported);
  }
  Counts counts;
  counts.tensors = cursor.read<std::uint64_t>("tensor count");
  counts.keys = cursor.read<std::uint64_t>("key count");
  check_count(cursor, "tensor count", counts.tensors, kTensorBytesMin);
  check_count(cursor, "key count", counts.keys, kKeyBytesMin);
  return counts;
}

// A key's or tensor's name: not empty, no NUL byte (it would hide the rest), at most `bytes_max`.
std::string_view read_name(GgufCursor& cursor, std::uint64_t bytes_max) {
  const auto length = cursor.read<std::uint64_t>("name");
  if (cursor.failed()) return {};
  if (length == 0 || length > bytes_max) {
    cursor.fail("name of " + std::to_string(length) + " bytes, allowed are 1 to " +
                std::to_string(bytes_max));
    return {};
  }
  const std::string_view name = cursor.take(length, "name");
  if (cursor.failed()) return {};
  if (const std::size_t bad = find_invalid_utf8(name); bad != std::string_view::npos) {
    cursor.fail("name " + quoted(name) + " is not UTF-8 at byte " + std::to_string(bad));
  } else if (name.find('\0') != std::string_view::npos) {
    cursor.fail("name " + quoted(name) + " contains a NUL byte");
  }
  return name;
}

void read_metadata(GgufCursor& cursor, std::uint64_t count, GgufContents& contents) {
  for (std::uint64_t i = 0; i < count && !cursor.failed(); ++i) {
    cursor.set_subject("key " + std::to_string(i) + " of " + std::to_string(count));
    const std::string_view key = read_name(cursor, kGgufKeyBytesMax);
    if (cursor.failed()) return;
    cursor.set_subject("key " + quoted(key));
    GgufValue value = read_gguf_value(cursor);
    if (cursor.failed()) return;
    if (!contents.metadata.try_emplace(std::string(key), std::move(value)).second) {
      cursor.fail("the key is there twice");
    }
  }
}

void read_alignment(GgufCursor& cursor, GgufContents& contents) {
  if (cursor.failed()) return;
  const auto found = contents.metadata.find("general.alignment");
  if (found == contents.metadata.end()) return;
  cursor.set_subject("key \"general.alignment\"");
  const auto* value = std::get_if<std::uint64_t>(&found->second);
  if (value == nullptr) {
    cursor.fail("its type must be an unsigned integer");
  } else if (!std::has_single_bit(*value) || *value < kGgufAlignmentMin ||
             *value > kGgufAlignmentMax) {
    cursor.fail("value " + std::to_string(*value) + ", allowed are powers of two from " +
                std::to_string(kGgufAlignmentMin) + " to " + std::to_string(kGgufAlignmentMax));
  } else {
    contents.alignment = *value;
  }
}

bool read_dimensions(GgufCursor& cursor, GgufTensor& tensor) {
  const auto count = cursor.read<std::uint32_t>("dimension count");
  if (cursor.failed()) return false;
  if (count == 0 || count > kGgufDimensionsMax) {
    return cursor.fail(std::to_string(count) + " dimensions, allowed are 1 to " +
                       std::to_string(kGgufDimensionsMax));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto size = cursor.read<std::uint64_t>("dimension");
    if (cursor.failed()) return false;
    if (size == 0) return cursor.fail("dimension " + std::to_string(i) + " is 0");
    tensor.dimensions.push_back(size);
  }
  return true;
}

// The tensor's size in bytes, each product checked against the file's size.
bool compute_bytes(GgufCursor& cursor, GgufTensor& tensor) {
  if (tensor.type > kGgufTypeIdMax) {
    return cursor.fail("tensor type " + std::to_string(tensor.type) + ", type ids end at " +
                       std::to_string(kGgufTypeIdMax));
  }
  std::uint64_t values = 1;
  for (const std::uint64_t size : tensor.dimensions) {
    // No type takes less than a tenth of a byte per value.
    const std::uint64_t values_max =
        cursor.file_bytes() > ~0ULL / 10 ? ~0ULL : cursor.file_bytes() * 10;
    if (size > values_max / values) {
      return cursor.fail("dimensions with more values than a file of " +
                         std::to_string(cursor.file_bytes()) + " bytes can hold");
    }
    values *= size;
  }
  const GgufTypeInfo type = gguf_type_info(tensor.type);
  if (type.block_bytes == 0) return true;
  if (tensor.dimensions[0] % type.block_values != 0) {
    return cursor.fail("rows of " + std::to_string(tensor.dimensions[0]) + " values, type " +
                       type.name + " needs a multiple of " + std::to_string(type.block_values));
  }
  const std::uint64_t blocks = values / type.block_values;
  if (blocks > cursor.file_bytes() / type.block_bytes) {
    return cursor.fail(std::to_string(blocks) + " blocks of " + std::to_string(type.block_bytes) +
                       " bytes are more than the file's " + std::to_string(cursor.file_bytes()) +
                       " bytes");
  }
  tensor.bytes = blocks * type.block_bytes;
  return true;
}

void read_tensors(GgufCursor& cursor, std::uint64_t count, GgufContents& contents) {
  for (std::uint64_t i = 0; i < count && !cursor.failed(); ++i) {
    cursor.set_subject("tensor " + std::to_string(i) + " of " + std::to_string(count));
    GgufTensor tensor;
    tensor.name = read_name(cursor, kGgufTensorNameBytesMax);
    if (cursor.failed()) return;
    cursor.set_subject("tensor " + quoted(tensor.name));
    if (!read_dimensions(cursor, tensor)) return;
    tensor.type = cursor.read<std::uint32_t>("type");
    tensor.file_offset = cursor.read<std::uint64_t>("offset");  // in the data section, so far
    if (cursor.failed() || !compute_bytes(cursor, tensor)) return;
    if (tensor.file_offset % contents.alignment != 0) {
      cursor.fail("offset " + std::to_string(tensor.file_offset) +
                  " is not a multiple of the alignment " + std::to_string(contents.alignment));
      return;
    }
    contents.tensors.push_back(std::move(tensor));
  }
}

// Turns offsets in the data section into offsets in the file; each tensor must end inside it.
void place_tensors(GgufCursor& cursor, GgufContents& contents) {
  const std::uint64_t data = actors::align_up(contents.header_bytes, contents.alignment);
  for (GgufTensor& tensor : contents.tensors) {
    cursor.set_subject("tensor " + quoted(tensor.name));
    const std::uint64_t room = data < cursor.file_bytes() ? cursor.file_bytes() - data : 0;
    // A tensor of unknown size still begins inside the file.
    const std::uint64_t bytes = std::max<std::uint64_t>(tensor.bytes, 1);
    if (tensor.file_offset > room || bytes > room - tensor.file_offset) {
      cursor.fail("offset " + std::to_string(tensor.file_offset) + " and " +
                  std::to_string(tensor.bytes) + " bytes, but the data section at " +
                  std::to_string(data) + " has " + std::to_string(room) +
                  " bytes (is the file cut off?)");
      return;
    }
    tensor.file_offset += data;
  }
}

void check_names(GgufCursor& cursor, const GgufContents& contents) {
  std::vector<std::string_view> names;
  names.reserve(contents.tensors.size());
  for (const GgufTensor& tensor : contents.tensors) names.emplace_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  cursor.set_subject("tensor " + quoted(*twice));
  cursor.fail("the tensor is there twice");
}

void check_overlaps(GgufCursor& cursor, const GgufContents& contents) {
  std::vector<const GgufTensor*> order;
  order.reserve(contents.tensors.size());
  for (const GgufTensor& tensor : contents.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const GgufTensor* a, const GgufTensor* b) {
    return a->file_offset < b->file_offset;
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = *order[i - 1];
    if (order[i]->file_offset >= before.file_offset + std::max<std::uint64_t>(before.bytes, 1)) {
      continue;
    }
    cursor.set_subject("tensor " + quoted(order[i]->name));
    cursor.fail("offset " + std::to_string(order[i]->file_offset) +
                " in the file overlaps tensor " + quoted(before.name) + " (" +
                std::to_string(before.bytes) + " bytes at " + std::to_string(before.file_offset) +
                ")");
    return;
  }
}

}  // namespace

GgufParse parse_gguf(std::string_view name, std::string_view header, std::uint64_t file_bytes) {
  GgufCursor cursor(name, header, file_bytes);
  GgufContents contents;
  const Counts counts = read_preamble(cursor, contents);
  if (!cursor.failed()) read_metadata(cursor, counts.keys, contents);
  read_alignment(cursor, contents);
  if (!cursor.failed()) read_tensors(cursor, counts.tensors, contents);
  contents.header_bytes = cursor.at();
  if (!cursor.failed()) place_tensors(cursor, contents);
  if (!cursor.failed()) check_names(cursor, contents);
  if (!cursor.failed()) check_overlaps(cursor, contents);
  if (cursor.failed()) return {cursor.take_error(), cursor.wanted_bytes()};
  return {std::move(contents), 0};
}

}  // namespace mzcache::engine
