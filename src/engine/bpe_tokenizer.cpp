#include "engine/bpe_tokenizer.h"

#include <bit>
#include <functional>
#include <unordered_map>

#include "engine/bpe_alphabet.h"
#include "engine/word_cache.h"

namespace mzcache::engine {
namespace {

std::size_t hash_of(std::string_view text) noexcept { return std::hash<std::string_view>{}(text); }

bool is_llama3(std::string_view splitter) {
  return splitter == "llama-bpe" || splitter == "llama3" || splitter == "llama-v3";
}

}  // namespace

class BpeTokenizer::WordEncoder final : public Encoder {
 public:
  WordEncoder(const BpeTokenizer& tokenizer, std::size_t text_bytes, std::vector<Token>& tokens)
      : tokenizer_(tokenizer), merger_(tokenizer.merges_), tokens_(tokens), cache_(text_bytes) {}

  void add(std::string_view text, bool /*starts*/) override {
    Splitter::Cursor cursor(tokenizer_.splitter_, text);
    std::string_view word;
    while (cursor.next(word)) {
      for (; word.size() > kWordBytesMax; word.remove_prefix(kWordBytesMax)) {
        add_word(word.substr(0, kWordBytesMax));
      }
      add_word(word);
    }
  }

 private:
  void add_word(std::string_view word) {
    cache_.add(word, tokens_, [this](std::string_view text, std::vector<Token>& tokens) {
      if (const Token whole = tokenizer_.whole_word(text); whole >= 0) {
        tokens.push_back(whole);
        return;
      }
      symbols_.clear();
      for (const char byte : text) {
        symbols_.push_back(tokenizer_.byte_tokens_[static_cast<unsigned char>(byte)]);
      }
      merger_.merge(symbols_, tokens);
    });
  }

  const BpeTokenizer& tokenizer_;
  BpeMerger merger_;
  std::vector<Token>& tokens_;
  std::vector<Token> symbols_;
  WordCache cache_;
};

BpeTokenizer::BpeTokenizer(const Vocabulary& vocabulary, Splitter splitter)
    : TableTokenizer(vocabulary, bpe_unspell, {.add_bos = is_llama3(vocabulary.splitter)}),
      splitter_(std::move(splitter)),
      merges_(vocabulary.merges.size()) {
  read_merges(vocabulary);
  if (is_llama3(vocabulary.splitter)) index_whole_words();
}

std::unique_ptr<BpeTokenizer::Encoder> BpeTokenizer::encoder(std::size_t text_bytes,
                                                             std::vector<Token>& tokens) const {
  return std::make_unique<WordEncoder>(*this, text_bytes, tokens);
}

void BpeTokenizer::read_merges(const Vocabulary& vocabulary) {
  std::unordered_map<std::string_view, Token> ids;
  ids.reserve(vocabulary.tokens.size());
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    ids.try_emplace(vocabulary.tokens[i], static_cast<Token>(i));
  }
  const auto id_of = [&ids](std::string_view text) {
    const auto found = ids.find(text);
    return found == ids.end() ? -1 : found->second;
  };
  for (unsigned byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] = id_of(bpe_spell(static_cast<unsigned char>(byte)));
  }
  for (Token id = 0; id < static_cast<Token>(size()); ++id) {  // "<0x0A>", where it is all
    if (kind(id) != TokenKind::kByte || bytes(id).size() != 1) continue;
    Token& token = byte_tokens_[static_cast<unsigned char>(bytes(id)[0])];
    if (token < 0) token = id;
  }
  std::string joined;
  for (std::size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string_view merge = vocabulary.merges[rank];
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) continue;
    joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    const Token left = id_of(merge.substr(0, space));
    const Token right = id_of(merge.substr(space + 1));
    const Token merged = id_of(joined);
    if (left < 0 || right < 0 || merged < 0) continue;
    merges_.add(left, right, {static_cast<std::uint32_t>(rank), merged});
  }
}

void BpeTokenizer::index_whole_words() {
  whole_words_.assign(std::bit_ceil(2 * size()), -1);
  for (Token id = 0; id < static_cast<Token>(size()); ++id) {
    if (kind(id) != TokenKind::kNormal || bytes(id).empty()) continue;
    Token& slot = whole_words_[whole_word_slot(bytes(id))];
    if (slot < 0) slot = id;
  }
}

std::size_t BpeTokenizer::whole_word_slot(std::string_view word) const noexcept {
  std::size_t at = hash_of(word) & (whole_words_.size() - 1);
  while (whole_words_[at] >= 0 && bytes(whole_words_[at]) != word) {
    at = (at + 1) & (whole_words_.size() - 1);
  }
  return at;
}

Token BpeTokenizer::whole_word(std::string_view word) const noexcept {
  return whole_words_.empty() ? -1 : whole_words_[whole_word_slot(word)];
}

}  // namespace mzcache::engine
