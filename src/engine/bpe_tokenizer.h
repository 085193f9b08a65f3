// The byte-level BPE tokenizer.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/bpe.h"
#include "engine/splitter.h"
#include "engine/token_table.h"

namespace mzcache::engine {

// Immutable, so thread-safe.
class BpeTokenizer final : public TableTokenizer {
 public:
  // The vocabulary has been checked. Bytes for which it has no token are left out of what encode()
  // gives, as in the reference tokenizers.
  BpeTokenizer(const Vocabulary& vocabulary, Splitter splitter);

 private:
  class WordEncoder;

  [[nodiscard]] std::unique_ptr<Encoder> encoder(std::size_t text_bytes,
                                                 std::vector<Token>& tokens) const override;
  void read_merges(const Vocabulary& vocabulary);
  void index_whole_words();
  [[nodiscard]] std::size_t whole_word_slot(std::string_view word) const noexcept;
  [[nodiscard]] Token whole_word(std::string_view word) const noexcept;

  Splitter splitter_;
  std::array<Token, 256> byte_tokens_{};
  BpeMerges merges_;
  std::vector<Token>
      whole_words_;  // hash table; empty unless a word in the vocabulary skips merging
};

}  // namespace mzcache::engine
