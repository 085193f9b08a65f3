#include "engine/token_table.h"

#include <algorithm>
#include <array>

namespace mzcache::engine {
namespace {

// Some files mark these as ordinary tokens, or name only one of them as the end.
constexpr std::array<std::string_view, 7> kEndNames = {
    "<|im_end|>",    "<|eot_id|>",      "<|eom_id|>",    "<end_of_turn>",
    "<|endoftext|>", "<|end_of_text|>", "[|endofturn|]",
};

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

Token named_or(std::int64_t named, Token fallback, const Vocabulary& vocabulary) {
  if (named >= 0) return static_cast<Token>(named);
  return fallback < static_cast<Token>(vocabulary.tokens.size()) ? fallback : -1;
}

}  // namespace

TableTokenizer::TableTokenizer(const Vocabulary& vocabulary, Unspell unspell, Defaults defaults)
    : bos_(named_or(vocabulary.bos, defaults.bos, vocabulary)),
      eos_(named_or(vocabulary.eos, defaults.eos, vocabulary)),
      add_bos_(vocabulary.add_bos.value_or(defaults.add_bos)),
      add_eos_(vocabulary.add_eos.value_or(false)) {
  read_tokens(vocabulary, unspell);
  if (eos_ >= 0) ends_.push_back(eos_);
  for (const std::int64_t id : {vocabulary.eot, vocabulary.eom}) {
    if (id >= 0) ends_.push_back(static_cast<Token>(id));
  }
}

void TableTokenizer::read_tokens(const Vocabulary& vocabulary, Unspell unspell) {
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
      bytes_ += kind == TokenKind::kByte ? byte_token(text) : unspell(text);
    }
    offsets_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
}

std::string_view TableTokenizer::bytes(Token token) const noexcept {
  return std::string_view(bytes_).substr(offsets_[token], offsets_[token + 1] - offsets_[token]);
}

bool TableTokenizer::is_control(Token token) const noexcept {
  return kinds_[token] == TokenKind::kControl || kinds_[token] == TokenKind::kUnknown;
}

std::vector<Token> TableTokenizer::encode(std::string_view text, Options options) const {
  std::vector<Token> tokens;
  if (options.add_bos && adds_bos()) tokens.push_back(bos_);
  if (!text.empty()) {
    const auto between = encoder(text.size(), tokens);
    bool starts = options.starts;
    for (std::size_t at = 0; at < text.size();) {
      const SpecialTokens::Hit hit =
          specials_.find(text, at, options.parse_special, options.as_text);
      const std::size_t end = std::min(hit.at, text.size());
      if (end > at) between->add(text.substr(at, end - at), starts);
      if (hit.token < 0) break;
      tokens.push_back(hit.token);
      starts = true;
      at = hit.at + hit.bytes;
    }
  }
  if (options.add_eos && add_eos_ && eos_ >= 0) tokens.push_back(eos_);
  return tokens;
}

std::string TableTokenizer::piece(Token token, bool special) const {
  if (token < 0 || static_cast<std::size_t>(token) >= kinds_.size()) return {};
  if (is_control(token) && !special) return {};
  return std::string(bytes(token));
}

bool TableTokenizer::ends_generation(Token token) const noexcept {
  return std::find(ends_.begin(), ends_.end(), token) != ends_.end();
}

}  // namespace mzcache::engine
