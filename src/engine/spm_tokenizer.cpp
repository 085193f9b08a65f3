#include "engine/spm_tokenizer.h"

#include <algorithm>
#include <functional>

#include "engine/tokenizer_utf8.h"
#include "engine/word_cache.h"

namespace mzcache::engine {
namespace {

// No merge makes a longer token: looking at all cuts of one takes time that grows with its square.
constexpr std::size_t kMergedBytesMax = 4096;

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581 stands for a space

std::string unspell(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(kSpace), text.size());
    bytes += text.substr(0, at);
    text.remove_prefix(at);
    if (text.empty()) break;
    bytes += ' ';
    text.remove_prefix(kSpace.size());
  }
  return bytes;
}

// U+2581 in a text is a space, as in SentencePiece.
std::size_t class_of(std::string_view character) noexcept {
  const auto byte = static_cast<unsigned char>(character[0]);
  if (byte < 0x80) return byte;
  return character.starts_with(kSpace) ? ' ' : 0x80;
}

std::size_t character_bytes(std::string_view text) noexcept {
  return static_cast<unsigned char>(text[0]) < 0x80 ? 1 : utf8_step(text).bytes;
}

}  // namespace

class SpmTokenizer::PieceEncoder final : public Encoder {
 public:
  PieceEncoder(const SpmTokenizer& tokenizer, std::size_t text_bytes, std::vector<Token>& tokens)
      : tokenizer_(tokenizer), merger_(tokenizer.merges_), tokens_(tokens), cache_(text_bytes) {}

  void add(std::string_view text, bool starts) override {
    bool prefix = starts && tokenizer_.space_prefix_;
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, piece_bytes(text));
      if (prefix) {
        encode(piece, true, tokens_);
        prefix = false;
      } else {
        cache_.add(piece, tokens_, [this](std::string_view word, std::vector<Token>& tokens) {
          encode(word, false, tokens);
        });
      }
      text.remove_prefix(piece.size());
    }
  }

 private:
  // Up to the first two neighbours that no token has: no merge reaches across them.
  [[nodiscard]] std::size_t piece_bytes(std::string_view text) const {
    std::size_t last = class_of(text);
    std::size_t at = character_bytes(text);
    while (at < text.size() && at < kWordBytesMax) {
      const std::string_view rest = text.substr(at);
      const std::size_t next = class_of(rest);
      if (!tokenizer_.neighbours_[last][next]) break;
      last = next;
      at += character_bytes(rest);
    }
    return at;
  }

  void encode(std::string_view piece, bool prefix, std::vector<Token>& tokens) {
    symbols_.clear();
    if (prefix) tokenizer_.add_symbols(" ", symbols_);
    while (!piece.empty()) {
      const std::size_t bytes = character_bytes(piece);
      tokenizer_.add_symbols(piece.substr(0, bytes), symbols_);
      piece.remove_prefix(bytes);
    }
    if (tokenizer_.loose_characters_.empty()) {
      merger_.merge(symbols_, tokens);
      return;
    }
    merged_.clear();
    merger_.merge(symbols_, merged_);
    for (const Token symbol : merged_) {
      const std::size_t loose = static_cast<std::size_t>(symbol) - tokenizer_.size();
      if (static_cast<std::size_t>(symbol) < tokenizer_.size()) {
        tokens.push_back(symbol);
      } else {
        tokenizer_.add_bytes(tokenizer_.loose_characters_[loose], tokens);
      }
    }
  }

  const SpmTokenizer& tokenizer_;
  BpeMerger merger_;
  std::vector<Token>& tokens_;
  std::vector<Token> symbols_;
  std::vector<Token> merged_;
  WordCache cache_;
};

SpmTokenizer::SpmTokenizer(const Vocabulary& vocabulary)
    : TableTokenizer(vocabulary, unspell, {.bos = 1, .eos = 2, .add_bos = true}),
      unknown_(vocabulary.unknown >= 0 ? static_cast<Token>(vocabulary.unknown) : 0),
      space_prefix_(vocabulary.add_space_prefix.value_or(true)) {
  byte_tokens_.fill(-1);
  Spelled spelled;
  spelled.reserve(size());
  for (Token id = 0; id < static_cast<Token>(size()); ++id) {
    if (bytes(id).empty()) continue;
    if (kind(id) == TokenKind::kNormal) {
      spelled.try_emplace(bytes(id), id);
    } else if (kind(id) == TokenKind::kByte && bytes(id).size() == 1) {
      Token& token = byte_tokens_[static_cast<unsigned char>(bytes(id)[0])];
      if (token < 0) token = id;
    }
  }
  read_characters(spelled);
  read_merges(vocabulary, spelled);
}

void SpmTokenizer::read_characters(const Spelled& spelled) {
  ascii_symbols_.fill(-1);
  const auto symbol = [&](std::string_view character) -> Token& {
    if (class_of(character) < 0x80) return ascii_symbols_[class_of(character)];
    return other_symbols_.try_emplace(std::string(character), -1).first->second;
  };
  for (const auto& [text, id] : spelled) {
    if (character_bytes(text) == text.size()) symbol(text) = id;
  }
  for (Token id = 0; id < static_cast<Token>(size()); ++id) {
    if (kind(id) != TokenKind::kNormal) continue;
    std::string_view rest = bytes(id);
    std::size_t last = kClasses;
    while (!rest.empty()) {
      const std::string_view character = rest.substr(0, character_bytes(rest));
      if (Token& known = symbol(character); known < 0) {
        known = static_cast<Token>(size() + loose_characters_.size());
        loose_characters_.emplace_back(character);
      }
      if (last < kClasses) neighbours_[last][class_of(character)] = true;
      last = class_of(character);
      rest.remove_prefix(character.size());
    }
  }
}

void SpmTokenizer::read_merges(const Vocabulary& vocabulary, const Spelled& spelled) {
  std::vector<float> ranked(vocabulary.scores);
  std::sort(ranked.begin(), ranked.end(), std::greater<>());
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  const auto symbol_of = [&](std::string_view text) {
    if (const auto found = spelled.find(text); found != spelled.end()) return found->second;
    if (character_bytes(text) != text.size()) return Token{-1};
    if (class_of(text) < 0x80) return ascii_symbols_[class_of(text)];
    const auto found = other_symbols_.find(std::string(text));
    return found == other_symbols_.end() ? Token{-1} : found->second;
  };
  struct Pair {
    Token left;
    Token right;
    Token merged;
  };
  std::vector<Pair> pairs;
  for (const auto& [text, id] : spelled) {
    if (text.size() > kMergedBytesMax) continue;
    for (std::size_t cut = character_bytes(text); cut < text.size();
         cut += character_bytes(text.substr(cut))) {
      const Token left = symbol_of(text.substr(0, cut));
      const Token right = left < 0 ? -1 : symbol_of(text.substr(cut));
      if (right >= 0) pairs.push_back({left, right, id});
    }
  }
  merges_ = BpeMerges(pairs.size());
  for (const Pair& pair : pairs) {
    const auto rank = std::lower_bound(ranked.begin(), ranked.end(), vocabulary.scores[pair.merged],
                                       std::greater<>()) -
                      ranked.begin();
    merges_.add(pair.left, pair.right, {static_cast<std::uint32_t>(rank), pair.merged});
  }
}

void SpmTokenizer::add_symbols(std::string_view character, std::vector<Token>& symbols) const {
  Token symbol = -1;
  if (class_of(character) < 0x80) {
    symbol = ascii_symbols_[class_of(character)];
  } else if (const auto found = other_symbols_.find(std::string(character));
             found != other_symbols_.end()) {
    symbol = found->second;
  }
  if (symbol >= 0) {
    symbols.push_back(symbol);
  } else {
    add_bytes(character, symbols);  // byte tokens never merge
  }
}

void SpmTokenizer::add_bytes(std::string_view bytes, std::vector<Token>& tokens) const {
  for (const char byte : bytes) {
    const Token token = byte_tokens_[static_cast<unsigned char>(byte)];
    if (token >= 0) {
      tokens.push_back(token);
    } else if (unknown_ >= 0) {
      tokens.push_back(unknown_);
      return;  // one for the whole character
    }
  }
}

std::unique_ptr<SpmTokenizer::Encoder> SpmTokenizer::encoder(std::size_t text_bytes,
                                                             std::vector<Token>& tokens) const {
  return std::make_unique<PieceEncoder>(*this, text_bytes, tokens);
}

}  // namespace mzcache::engine
