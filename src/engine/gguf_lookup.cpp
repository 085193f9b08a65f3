// Typed look-ups in a file's metadata.
#include <limits>

#include "engine/gguf.h"
#include "engine/gguf_text.h"

namespace mzcache::engine {
namespace {

const char* type_name(const GgufValue& value) {
  static constexpr const char* kNames[] = {"unsigned integer",
                                           "signed integer",
                                           "number",
                                           "boolean",
                                           "string",
                                           "array of unsigned integers",
                                           "array of signed integers",
                                           "array of numbers",
                                           "array of booleans",
                                           "array of strings"};
  return kNames[value.index()];
}

Error wrong_type(const std::string& path, std::string_view key, const GgufValue& value,
                 std::string_view wanted) {
  return {ErrorCode::kBadFormat, 0, "read model",
          path + ": key " + quoted(key) + " is of type " + type_name(value) + ", wanted " +
              std::string(wanted)};
}

}  // namespace

Result<std::optional<std::string>> GgufFile::text(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return std::optional<std::string>();
  if (const auto* value = std::get_if<std::string>(&found->second)) return std::optional(*value);
  return wrong_type(path_, key, found->second, "string");
}

Result<std::optional<std::uint64_t>> GgufFile::integer(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return std::optional<std::uint64_t>();
  if (const auto* value = std::get_if<std::uint64_t>(&found->second)) return std::optional(*value);
  const auto* value = std::get_if<std::int64_t>(&found->second);
  if (value != nullptr && *value >= 0) return std::optional(static_cast<std::uint64_t>(*value));
  if (value != nullptr) {
    return Error{ErrorCode::kBadFormat, 0, "read model",
                 path_ + ": key " + quoted(key) + " is " + std::to_string(*value) +
                     ", allowed are values from 0"};
  }
  return wrong_type(path_, key, found->second, "unsigned integer");
}

Result<std::optional<double>> GgufFile::number(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return std::optional<double>();
  if (const auto* value = std::get_if<double>(&found->second)) return std::optional(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&found->second)) {
    return std::optional(static_cast<double>(*value));
  }
  if (const auto* value = std::get_if<std::int64_t>(&found->second)) {
    return std::optional(static_cast<double>(*value));
  }
  return wrong_type(path_, key, found->second, "number");
}

Result<std::optional<bool>> GgufFile::boolean(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return std::optional<bool>();
  if (const auto* value = std::get_if<bool>(&found->second)) return std::optional(*value);
  return wrong_type(path_, key, found->second, "boolean");
}

Result<const std::vector<std::string>*> GgufFile::texts(std::string_view key) const {
  static const std::vector<std::string> kEmpty;
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return &kEmpty;
  if (const auto* value = std::get_if<std::vector<std::string>>(&found->second)) return value;
  return wrong_type(path_, key, found->second, "array of strings");
}

Result<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return std::vector<std::int64_t>();
  if (const auto* value = std::get_if<std::vector<std::int64_t>>(&found->second)) return *value;
  const auto* value = std::get_if<std::vector<std::uint64_t>>(&found->second);
  if (value == nullptr) return wrong_type(path_, key, found->second, "array of integers");
  std::vector<std::int64_t> out;
  out.reserve(value->size());
  for (const std::uint64_t one : *value) {
    if (one > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return Error{ErrorCode::kBadFormat, 0, "read model",
                   path_ + ": key " + quoted(key) + " contains " + std::to_string(one) +
                       ", allowed are values below 2^63"};
    }
    out.push_back(static_cast<std::int64_t>(one));
  }
  return out;
}

Result<std::vector<double>> GgufFile::numbers(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return std::vector<double>();
  if (const auto* value = std::get_if<std::vector<double>>(&found->second)) return *value;
  if (const auto* value = std::get_if<std::vector<std::uint64_t>>(&found->second)) {
    return std::vector<double>(value->begin(), value->end());
  }
  if (const auto* value = std::get_if<std::vector<std::int64_t>>(&found->second)) {
    return std::vector<double>(value->begin(), value->end());
  }
  return wrong_type(path_, key, found->second, "array of numbers");
}

}  // namespace mzcache::engine
