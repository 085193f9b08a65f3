#include "engine/describe_model_keys.h"

#include <cmath>

#include "engine/gguf_text.h"

namespace mzcache::engine {

bool ModelKeys::has(std::string_view key) const {
  return file_.metadata().count(prefix_ + std::string(key)) != 0;
}

void ModelKeys::fail(ErrorCode code, std::string_view key, const std::string& detail) {
  if (failed()) return;
  error_ = {code, 0, "read model",
            file_.path() + ": key " + quoted(prefix_ + std::string(key)) + ": " + detail};
}

std::uint32_t ModelKeys::size(std::string_view key, std::uint32_t limit,
                              std::optional<std::uint32_t> fallback) {
  return whole(key, false, limit, fallback);
}

std::uint32_t ModelKeys::size_or_zero(std::string_view key, std::uint32_t limit,
                                      std::uint32_t fallback) {
  return whole(key, true, limit, fallback);
}

std::uint32_t ModelKeys::whole(std::string_view key, bool zero_allowed, std::uint32_t limit,
                               std::optional<std::uint32_t> fallback) {
  auto value = file_.integer(prefix_ + std::string(key));
  if (!value) {
    if (!failed()) error_ = std::move(value).error();
    return fallback.value_or(1);
  }
  if (!value->has_value()) {
    if (!fallback) fail(ErrorCode::kBadFormat, key, "is missing");
    return fallback.value_or(1);
  }
  const std::uint64_t found = **value;
  if ((found == 0 && !zero_allowed) || found > limit) {
    fail(ErrorCode::kBadFormat, key,
         "value " + std::to_string(found) + ", allowed are " + (zero_allowed ? "0" : "1") + " to " +
             std::to_string(limit));
    return fallback.value_or(1);
  }
  return static_cast<std::uint32_t>(found);
}

float ModelKeys::positive(std::string_view key, double limit, float fallback) {
  return number(key, false, limit, fallback);
}

float ModelKeys::positive_or_zero(std::string_view key, double limit, float fallback) {
  return number(key, true, limit, fallback);
}

float ModelKeys::number(std::string_view key, bool zero_allowed, double limit, float fallback) {
  auto value = file_.number(prefix_ + std::string(key));
  if (!value) {
    if (!failed()) error_ = std::move(value).error();
    return fallback;
  }
  if (!value->has_value()) return fallback;
  const double found = **value;
  if (!(std::isfinite(found) && (found > 0 || (zero_allowed && found == 0)) && found < limit)) {
    fail(ErrorCode::kBadFormat, key,
         "value " + std::to_string(found) + ", allowed are numbers " +
             (zero_allowed ? "from 0 to below " : "above 0 and below ") + std::to_string(limit));
    return fallback;
  }
  return static_cast<float>(found);
}

std::size_t ModelKeys::choice(std::string_view key, std::span<const std::string_view> allowed) {
  auto value = file_.text(prefix_ + std::string(key));
  if (!value) {
    if (!failed()) error_ = std::move(value).error();
    return 0;
  }
  if (!value->has_value()) return 0;
  std::string names;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (**value == allowed[i]) return i;
    names += " " + std::string(allowed[i]);
  }
  fail(ErrorCode::kUnsupported, key, "value " + quoted(**value) + "; supported:" + names);
  return 0;
}

std::optional<std::vector<bool>> ModelKeys::flags(std::string_view key, std::uint32_t count) {
  const auto found = file_.metadata().find(prefix_ + std::string(key));
  if (found == file_.metadata().end()) return {};
  const auto* list = std::get_if<std::vector<bool>>(&found->second);
  if (list == nullptr) return {};
  if (list->size() == count) return *list;
  fail(ErrorCode::kBadFormat, key,
       std::to_string(list->size()) + " values, allowed are as many as layers (" +
           std::to_string(count) + ")");
  return {};
}

void ModelKeys::refuse(std::string_view key) {
  const auto found = file_.metadata().find(prefix_ + std::string(key));
  if (found == file_.metadata().end()) return;
  const GgufValue& value = found->second;
  const auto* whole = std::get_if<std::uint64_t>(&value);
  const auto* number = std::get_if<double>(&value);
  const auto* flag = std::get_if<bool>(&value);
  const bool neutral = (whole != nullptr && *whole == 0) || (number != nullptr && *number == 0) ||
                       (flag != nullptr && !*flag);
  if (!neutral) fail(ErrorCode::kUnsupported, key, "not supported; supported: absent or 0");
}

}  // namespace mzcache::engine
