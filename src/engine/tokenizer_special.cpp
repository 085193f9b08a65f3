#include "engine/tokenizer_special.h"

#include <algorithm>

namespace mzcache::engine {

std::uint32_t SpecialTokens::child(std::uint32_t node, char byte) const noexcept {
  for (const auto& [letter, next] : nodes_[node].children) {
    if (letter == byte) return next;
  }
  return 0;
}

void SpecialTokens::add(std::string_view text, Token token, bool control) {
  if (text.empty()) return;
  std::uint32_t node = 0;
  for (const char byte : text) {
    std::uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<std::uint32_t>(nodes_.size());
      nodes_[node].children.emplace_back(byte, next);
      nodes_.emplace_back();
    }
    node = next;
  }
  if (nodes_[node].token >= 0) return;
  nodes_[node].token = token;
  nodes_[node].control = control;
  const auto first = static_cast<unsigned char>(text[0]);
  begins_any_[first] = true;
  if (!control) begins_user_defined_[first] = true;
}

SpecialTokens::Hit SpecialTokens::longest_at(std::string_view text, std::size_t at, bool controls,
                                             std::span<const Token> ignored) const noexcept {
  Hit hit;
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node == 0) break;
    const Node& reached = nodes_[node];
    if (reached.token < 0 || (reached.control && !controls)) continue;
    if (std::find(ignored.begin(), ignored.end(), reached.token) != ignored.end()) continue;
    hit = {at, i + 1 - at, reached.token};
  }
  return hit;
}

SpecialTokens::Hit SpecialTokens::find(std::string_view text, std::size_t from, bool controls,
                                       std::span<const Token> ignored) const noexcept {
  const auto& begins = controls ? begins_any_ : begins_user_defined_;
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!begins[static_cast<unsigned char>(text[at])]) continue;
    const Hit hit = longest_at(text, at, controls, ignored);
    if (hit.token >= 0) return hit;
  }
  return {};
}

Token SpecialTokens::exact(std::string_view text) const noexcept {
  std::uint32_t node = 0;
  for (const char byte : text) {
    node = child(node, byte);
    if (node == 0) return -1;
  }
  return nodes_[node].token;
}

}  // namespace mzcache::engine
