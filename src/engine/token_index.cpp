#include "engine/token_index.h"

#include <algorithm>
#include <utility>

namespace mzcache::engine {
namespace {

// Longer tokens are left out: no vocabulary has any, and the lengths here stay short.
constexpr std::size_t kTokenBytesMax = 0xFFFF;

}  // namespace

TokenIndex::TokenIndex(const Tokenizer& tokenizer) : place_(tokenizer.size(), kNone) {
  std::vector<std::pair<std::string, Token>> tokens;
  tokens.reserve(tokenizer.size());
  std::size_t total = 0;
  for (Token token = 0; token < static_cast<Token>(tokenizer.size()); ++token) {
    if (tokenizer.ends_generation(token)) {
      ends_.push_back(token);
      continue;
    }
    std::string text = tokenizer.piece(token, false);
    if (text.empty() || text.size() > kTokenBytesMax) continue;
    total += text.size();
    tokens.emplace_back(std::move(text), token);
  }
  std::sort(tokens.begin(), tokens.end());
  bytes_.reserve(total);
  entries_.reserve(tokens.size());
  std::string_view before;
  for (const auto& [text, token] : tokens) {
    const auto differs =
        std::mismatch(text.begin(), text.end(), before.begin(), before.end()).first;
    place_[token] = static_cast<std::uint32_t>(entries_.size());
    entries_.push_back({token, static_cast<std::uint32_t>(bytes_.size()),
                        static_cast<std::uint16_t>(text.size()),
                        static_cast<std::uint16_t>(differs - text.begin())});
    bytes_ += text;
    before = text;
  }
}

std::string_view TokenIndex::text(Token token) const noexcept {
  if (token < 0 || static_cast<std::size_t>(token) >= place_.size()) return {};
  return place_[token] == kNone ? std::string_view() : text(entries_[place_[token]]);
}

}  // namespace mzcache::engine
