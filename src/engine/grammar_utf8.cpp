#include "engine/grammar_utf8.h"

#include <algorithm>
#include <array>

namespace mzcache::engine {
namespace {

using Ways = std::vector<std::vector<ByteRange>>;

struct Form {
  char32_t first;
  char32_t last;
  unsigned bytes;
  std::uint8_t mark;  // of the first byte
};

// Surrogates lie between the two forms of three bytes.
constexpr std::array kForms = {
    Form{0, 0x7F, 1, 0x00},        Form{0x80, 0x7FF, 2, 0xC0},       Form{0x800, 0xD7FF, 3, 0xE0},
    Form{0xE000, 0xFFFF, 3, 0xE0}, Form{0x10000, 0x10FFFF, 4, 0xF0},
};

// The last `bytes` bytes of all characters from `first` to `last`, behind `begin`. The characters
// are alike in all bits above those.
void add_ways(char32_t first, char32_t last, unsigned bytes, std::uint8_t mark,
              std::vector<ByteRange> begin, Ways& ways) {
  const unsigned shift = 6 * (bytes - 1);
  const char32_t span = (char32_t{1} << shift) - 1;  // all that the bytes after this one can say
  const char32_t mask = mark == 0x80 ? 0x3F : 0x1FFFFF;
  const auto byte = [&](char32_t c) {
    return static_cast<std::uint8_t>(mark | (c >> shift & mask));
  };
  if (bytes == 1) {
    begin.push_back({byte(first), byte(last)});
    ways.push_back(std::move(begin));
    return;
  }
  if (first >> shift == last >> shift) {
    begin.push_back({byte(first), byte(first)});
    add_ways(first, last, bytes - 1, 0x80, std::move(begin), ways);
    return;
  }
  if ((first & span) != 0) {
    add_ways(first, first | span, bytes, mark, begin, ways);
    first = (first | span) + 1;
  }
  const bool cut_last = (last & span) != span;
  const char32_t whole_last = cut_last ? (last & ~span) - 1 : last;
  if (first <= whole_last) {
    std::vector<ByteRange> way = begin;
    way.push_back({byte(first), byte(whole_last)});
    way.insert(way.end(), bytes - 1, {0x80, 0xBF});
    ways.push_back(std::move(way));
  }
  if (cut_last) add_ways(last & ~span, last, bytes, mark, std::move(begin), ways);
}

}  // namespace

Ways utf8_byte_ranges(const std::vector<std::pair<char32_t, char32_t>>& ranges) {
  Ways ways;
  for (const auto& [first, last] : ranges) {
    for (const Form& form : kForms) {
      const char32_t from = std::max(first, form.first);
      const char32_t to = std::min(last, form.last);
      if (from <= to) add_ways(from, to, form.bytes, form.mark, {}, ways);
    }
  }
  return ways;
}

}  // namespace mzcache::engine
