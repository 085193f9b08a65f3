// Sizes and numbers under "<architecture>.", read with their limits. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/gguf.h"

namespace mzcache::engine {

// The first failure sticks, later reads return the fallback: a function reads all it wants and
// checks once.
class ModelKeys {
 public:
  ModelKeys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  // A whole number in 1 … limit. Without a fallback the key must be there.
  std::uint32_t size(std::string_view key, std::uint32_t limit,
                     std::optional<std::uint32_t> fallback = {});
  // The same, where 0 is allowed too.
  std::uint32_t size_or_zero(std::string_view key, std::uint32_t limit, std::uint32_t fallback);
  // A finite number above 0, below `limit`.
  float positive(std::string_view key, double limit, float fallback);
  // The same, where 0 is allowed too.
  float positive_or_zero(std::string_view key, double limit, float fallback);
  // One of `allowed`, by its number; the first where the key is absent.
  std::size_t choice(std::string_view key, std::span<const std::string_view> allowed);
  // A list of booleans, one for each of `count` layers; nothing where the key is absent or a
  // number.
  std::optional<std::vector<bool>> flags(std::string_view key, std::uint32_t count);
  // Fails where the key is there with a value other than zero or false.
  void refuse(std::string_view key);
  void fail(ErrorCode code, std::string_view key, const std::string& detail);

  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool failed() const noexcept { return error_.code != ErrorCode::kOk; }
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  std::uint32_t whole(std::string_view key, bool zero_allowed, std::uint32_t limit,
                      std::optional<std::uint32_t> fallback);
  float number(std::string_view key, bool zero_allowed, double limit, float fallback);

  const GgufFile& file_;
  std::string prefix_;
  Error error_;
};

}  // namespace mzcache::engine
