// Ranges of characters as the ranges of bytes that spell them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace mzcache::engine {

struct ByteRange {
  std::uint8_t first = 0;
  std::uint8_t last = 0;
};

// Sequences of byte ranges: a text matches one of them exactly when it is the UTF-8 of one
// character in one of the ranges (code points, both ends included). Surrogates and what is above
// U+10FFFF are left out.
[[nodiscard]] std::vector<std::vector<ByteRange>> utf8_byte_ranges(
    const std::vector<std::pair<char32_t, char32_t>>& ranges);

}  // namespace mzcache::engine
