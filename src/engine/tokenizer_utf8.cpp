#include "engine/tokenizer_utf8.h"

#include <cstring>

namespace mzcache::engine {
namespace {

struct Form {
  std::size_t length;       // 0: no character begins with this byte
  std::uint8_t second_low;  // range of the second byte; later ones are 80..BF
  std::uint8_t second_high;
};

Form form_of(std::uint8_t lead) noexcept {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) noexcept {
  const Form form = form_of(static_cast<std::uint8_t>(text[0]));
  if (form.length == 0) return {Utf8State::kInvalid, 1};
  for (std::size_t i = 1; i < form.length; ++i) {
    if (i == text.size()) return {Utf8State::kPartial, i};
    const auto byte = static_cast<std::uint8_t>(text[i]);
    const std::uint8_t low = i == 1 ? form.second_low : 0x80;
    const std::uint8_t high = i == 1 ? form.second_high : 0xBF;
    if (byte < low || byte > high) return {Utf8State::kInvalid, i};
  }
  return {Utf8State::kWhole, form.length};
}

std::size_t utf8_valid_prefix(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = 0;
    while (at + sizeof eight <= text.size()) {  // most text is ASCII
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080ULL) != 0) break;
      at += sizeof eight;
    }
    if (at == text.size()) break;
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.state != Utf8State::kWhole) break;
    at += step.bytes;
  }
  return at;
}

}  // namespace mzcache::engine
