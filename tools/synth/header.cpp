#include "synth/header.h"

#include <cstring>

namespace mzcache::synth {
namespace {

// Value type ids of the format.
enum ValueType : std::uint32_t { kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9 };

template <class T>
void append(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void append_string(std::string& out, std::string_view text) {
  append(out, std::uint64_t{text.size()});
  out += text;
}

}  // namespace

void Header::begin(std::string_view key, std::uint32_t type) {
  append_string(keys_, key);
  append(keys_, type);
  ++key_count_;
}

void Header::add(std::string_view key, std::uint32_t value) {
  begin(key, kU32);
  append(keys_, value);
}
void Header::add(std::string_view key, float value) {
  begin(key, kF32);
  append(keys_, value);
}
void Header::add(std::string_view key, bool value) {
  begin(key, kBool);
  append(keys_, static_cast<std::uint8_t>(value));
}
void Header::add(std::string_view key, std::string_view value) {
  begin(key, kString);
  append_string(keys_, value);
}
void Header::add(std::string_view key, const std::vector<std::string>& values) {
  begin(key, kArray);
  append(keys_, std::uint32_t{kString});
  append(keys_, std::uint64_t{values.size()});
  for (const std::string& value : values) append_string(keys_, value);
}
void Header::add(std::string_view key, const std::vector<std::int32_t>& values) {
  begin(key, kArray);
  append(keys_, std::uint32_t{kI32});
  append(keys_, std::uint64_t{values.size()});
  for (const std::int32_t value : values) append(keys_, value);
}

std::string Header::bytes(const std::vector<PlannedTensor>& tensors) const {
  std::string out = "GGUF";
  append(out, std::uint32_t{3});
  append(out, std::uint64_t{tensors.size()});
  append(out, key_count_);
  out += keys_;
  std::uint64_t offset = 0;
  for (const PlannedTensor& tensor : tensors) {
    append_string(out, tensor.name);
    append(out, std::uint32_t{tensor.rows == 0 ? 1U : 2U});
    append(out, tensor.columns);
    if (tensor.rows != 0) append(out, tensor.rows);
    append(out, static_cast<std::uint32_t>(tensor.type));
    append(out, offset);
    offset = actors::align_up(offset + tensor.bytes(), kAlignment);
  }
  out.resize(actors::align_up(out.size(), kAlignment), '\0');
  return out;
}

}  // namespace mzcache::synth
