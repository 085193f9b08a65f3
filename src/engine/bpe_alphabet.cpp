#include "engine/bpe_alphabet.h"

#include <array>
#include <cstdint>

namespace mzcache::engine {
namespace {

constexpr std::size_t kLetters = 0x100 + 68;

constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

struct Alphabet {
  std::array<std::uint16_t, 256> letter{};    // of a byte
  std::array<std::int16_t, kLetters> byte{};  // of a letter, -1 where it is none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  std::uint16_t other = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::uint16_t letter = is_printable(byte) ? static_cast<std::uint16_t>(byte) : other++;
    alphabet.letter[byte] = letter;
    alphabet.byte[letter] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string bpe_spell(unsigned char byte) {
  const unsigned letter = kAlphabet.letter[byte];
  if (letter < 0x80) return {static_cast<char>(letter)};
  return {static_cast<char>(0xC0U | letter >> 6U), static_cast<char>(0x80U | (letter & 0x3FU))};
}

std::string bpe_unspell(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    std::size_t length = 1;
    std::size_t letter = lead;
    if (lead >= 0xC2 && lead <= 0xDF && at + 1 < text.size()) {  // all letters have 1 or 2 bytes
      length = 2;
      letter = (lead & 0x1FU) << 6U | (static_cast<unsigned char>(text[at + 1]) & 0x3FU);
    }
    const bool is_letter =
        (lead < 0x80 || length == 2) && letter < kLetters && kAlphabet.byte[letter] >= 0;
    if (is_letter) {
      bytes += static_cast<char>(kAlphabet.byte[letter]);
    } else {
      bytes += text.substr(at, length);
    }
    at += length;
  }
  return bytes;
}

}  // namespace mzcache::engine
