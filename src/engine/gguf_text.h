// Text out of files: checked before it is trusted, made printable before it is shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mzcache::engine {

// Position of the first byte that is not part of well-formed UTF-8 (no overlong forms, surrogates
// or values above U+10FFFF), or npos.
[[nodiscard]] std::size_t find_invalid_utf8(std::string_view text) noexcept;

// For messages: in double quotes, control and non-ASCII bytes as \xNN, cut after `length_max`
// bytes.
[[nodiscard]] std::string quoted(std::string_view text, std::size_t length_max = 80);

}  // namespace mzcache::engine
