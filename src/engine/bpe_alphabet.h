// The alphabet in which byte-level vocabularies spell bytes: printable Latin-1 characters stand for
// themselves, the 68 other bytes for U+0100 and up, in order. Source: GPT-2's encoder.
#pragma once

#include <string>
#include <string_view>

namespace mzcache::engine {

// The UTF-8 spelling of a byte.
[[nodiscard]] std::string bpe_spell(unsigned char byte);
// The bytes a token's text stands for; characters outside the alphabet stand for themselves.
[[nodiscard]] std::string bpe_unspell(std::string_view text);

}  // namespace mzcache::engine
