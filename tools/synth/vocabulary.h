// A made-up byte-level vocabulary that works: every byte has a token, every merge yields one, the
// special tokens of the family are there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "synth/shapes.h"

namespace mzcache::synth {

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;  // 1 normal, 3 control
  std::vector<std::string> merges;
  std::uint32_t bos = 0;
  std::uint32_t eos = 0;
  std::uint32_t end_of_turn = 0;
  bool add_bos = false;
  std::string chat_template;
};

// Exactly `size` tokens: 256 bytes, then pieces (each a merge of an earlier piece and a letter),
// then the special tokens.
[[nodiscard]] Vocabulary make_vocabulary(ChatFamily family, std::uint32_t size);

}  // namespace mzcache::synth
