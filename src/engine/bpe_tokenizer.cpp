#include "engine/bpe_tokenizer.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_map>

#include "engine/bpe_alphabet.h"

namespace mzcache::engine {
namespace {

// Some files mark these as ordinary tokens, or name only one of them as the end.
constexpr std::array<std::string_view, 7> kEndNames = {
    "<|im_end|>",    "<|eot_id|>",      "<|eom_id|>",    "<end_of_turn>",
    "<|endoftext|>", "<|end_of_text|>", "[|endofturn|]",
};

// Longer words are cut: merging needs 28 bytes of working memory per byte of a word.
constexpr std::size_t kWordBytesMax = std::size_t{1} << 26U;
constexpr std::size_t kCacheSlotsMax = std::size_t{1} << 16U;

std::size_t hash_of(std::string_view text) noexcept { return std::hash<std::string_view>{}(text); }

bool is_llama3(std::string_view splitter) {
  return splitter == "llama-bpe" || splitter == "llama3" || splitter == "llama-v3";
}

// "<0x0A>" is a byte.
std::string byte_token(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
  const auto is_digit = [](char c) {
    return std::string_view("0123456789abcdefABCDEF").find(c) != std::string_view::npos;
  };
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>' || !is_digit(text[3]) ||
      !is_digit(text[4])) {
    return std::string(text);
  }
  return {static_cast<char>(digit(text[3]) * 16 + digit(text[4]))};
}

}  // namespace

// One call of encode(). Words repeat, so the tokens of a word are looked up among those already
// written: the cache is a table of places in the text and in the output.
class BpeTokenizer::Encoder {
 public:
  Encoder(const BpeTokenizer& tokenizer, std::size_t text_bytes, std::vector<Token>& tokens)
      : tokenizer_(tokenizer),
        merger_(tokenizer.merges_),
        tokens_(tokens),
        cache_(std::min(kCacheSlotsMax, std::bit_ceil(text_bytes / 4 + 1))) {}

  void add(std::string_view text) {
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
  struct Known {
    std::string_view word;
    std::size_t begin = 0;
    std::size_t count = 0;
  };

  void add_word(std::string_view word) {
    Known& known = cache_[hash_of(word) & (cache_.size() - 1)];
    if (known.word == word) {  // words are not empty
      for (std::size_t i = 0; i < known.count; ++i) {
        const Token token = tokens_[known.begin + i];
        tokens_.push_back(token);
      }
      return;
    }
    const std::size_t begin = tokens_.size();
    merge_word(word);
    known = {word, begin, tokens_.size() - begin};
  }

  void merge_word(std::string_view word) {
    if (const Token whole = tokenizer_.whole_word(word); whole >= 0) {
      tokens_.push_back(whole);
      return;
    }
    symbols_.clear();
    for (const char byte : word) {
      symbols_.push_back(tokenizer_.byte_tokens_[static_cast<unsigned char>(byte)]);
    }
    merger_.merge(symbols_, tokens_);
  }

  const BpeTokenizer& tokenizer_;
  BpeMerger merger_;
  std::vector<Token>& tokens_;
  std::vector<Token> symbols_;
  std::vector<Known> cache_;
};

BpeTokenizer::BpeTokenizer(const Vocabulary& vocabulary, Splitter splitter)
    : splitter_(std::move(splitter)),
      merges_(vocabulary.merges.size()),
      bos_(static_cast<Token>(vocabulary.bos)),
      eos_(static_cast<Token>(vocabulary.eos)),
      add_bos_(vocabulary.add_bos.value_or(is_llama3(vocabulary.splitter))) {
  read_tokens(vocabulary);
  read_merges(vocabulary);
  if (is_llama3(vocabulary.splitter)) index_whole_words();
  for (const std::int64_t id : {vocabulary.eos, vocabulary.eot, vocabulary.eom}) {
    if (id >= 0) ends_.push_back(static_cast<Token>(id));
  }
}

void BpeTokenizer::read_tokens(const Vocabulary& vocabulary) {
  const std::size_t count = vocabulary.tokens.size();
  kinds_.reserve(count);
  offsets_.reserve(count + 1);
  offsets_.push_back(0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& text = vocabulary.tokens[i];
    auto kind = vocabulary.kinds.empty() || vocabulary.kinds[i] == 0
                    ? TokenKind::kNormal
                    : static_cast<TokenKind>(vocabulary.kinds[i]);
    const auto id = static_cast<Token>(i);
    if (std::find(kEndNames.begin(), kEndNames.end(), text) != kEndNames.end()) {
      kind = TokenKind::kControl;
      ends_.push_back(id);
    }
    kinds_.push_back(kind);
    if (is_control(id) || kind == TokenKind::kUserDefined) {
      specials_.add(text, id, is_control(id));
      bytes_ += text;
    } else {
      bytes_ += kind == TokenKind::kByte ? byte_token(text) : bpe_unspell(text);
    }
    offsets_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
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
  for (Token id = 0; id < static_cast<Token>(kinds_.size()); ++id) {  // "<0x0A>", where it is all
    if (kinds_[id] != TokenKind::kByte || bytes(id).size() != 1) continue;
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
  whole_words_.assign(std::bit_ceil(2 * kinds_.size()), -1);
  for (Token id = 0; id < static_cast<Token>(kinds_.size()); ++id) {
    if (kinds_[id] != TokenKind::kNormal || bytes(id).empty()) continue;
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

std::string_view BpeTokenizer::bytes(Token token) const noexcept {
  return std::string_view(bytes_).substr(offsets_[token], offsets_[token + 1] - offsets_[token]);
}

bool BpeTokenizer::is_control(Token token) const noexcept {
  return kinds_[token] == TokenKind::kControl || kinds_[token] == TokenKind::kUnknown;
}

std::vector<Token> BpeTokenizer::encode(std::string_view text, Options options) const {
  std::vector<Token> tokens;
  if (options.add_bos && add_bos_ && bos_ >= 0) tokens.push_back(bos_);
  if (text.empty()) return tokens;
  Encoder encoder(*this, text.size(), tokens);
  for (std::size_t at = 0; at < text.size();) {
    const SpecialTokens::Hit hit = specials_.find(text, at, options.parse_special);
    const std::size_t end = std::min(hit.at, text.size());
    if (end > at) encoder.add(text.substr(at, end - at));
    if (hit.token < 0) break;
    tokens.push_back(hit.token);
    at = hit.at + hit.bytes;
  }
  return tokens;
}

std::string BpeTokenizer::piece(Token token, bool special) const {
  if (token < 0 || static_cast<std::size_t>(token) >= kinds_.size()) return {};
  if (is_control(token) && !special) return {};
  return std::string(bytes(token));
}

bool BpeTokenizer::ends_generation(Token token) const noexcept {
  return std::find(ends_.begin(), ends_.end(), token) != ends_.end();
}

}  // namespace mzcache::engine
