#include "engine/gguf_text.h"

#include <cstdint>

namespace mzcache::engine {
namespace {

// Bytes of the well-formed sequence at `text`, or 0 (Unicode 15, table 3-7).
std::size_t sequence_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto within = [&](std::size_t i, std::uint8_t low, std::uint8_t high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return within(1, 0x80, 0xBF) ? 2 : 0;
  if (lead < 0xF0) {
    const std::uint8_t low = lead == 0xE0 ? 0xA0 : 0x80;
    const std::uint8_t high = lead == 0xED ? 0x9F : 0xBF;
    return within(1, low, high) && within(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead > 0xF4) return 0;
  const std::uint8_t low = lead == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t high = lead == 0xF4 ? 0x8F : 0xBF;
  return within(1, low, high) && within(2, 0x80, 0xBF) && within(3, 0x80, 0xBF) ? 4 : 0;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = sequence_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

std::string quoted(std::string_view text, std::size_t length_max) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, length_max)) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  if (text.size() > length_max) out += "…";
  out += '"';
  return out;
}

}  // namespace mzcache::engine
