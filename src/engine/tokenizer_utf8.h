// Walking bytes that should be UTF-8 and may not be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mzcache::engine {

enum class Utf8State : std::uint8_t {
  kWhole,    // `bytes` bytes are one character
  kInvalid,  // `bytes` bytes can never be part of one (the longest such start, as Unicode advises)
  kPartial,  // the text ends inside a character that began well
};

struct Utf8Step {
  Utf8State state = Utf8State::kInvalid;
  std::size_t bytes = 0;
};

// The first character of a text that is not empty. Overlong forms, surrogates and values above
// U+10FFFF are invalid (Unicode 15, table 3-7).
[[nodiscard]] Utf8Step utf8_step(std::string_view text) noexcept;

// Bytes at the start of `text` that are whole characters.
[[nodiscard]] std::size_t utf8_valid_prefix(std::string_view text) noexcept;

}  // namespace mzcache::engine
