// Finding the special tokens a text spells.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tokenizer.h"

namespace mzcache::engine {

// A trie of the texts of control and user-defined tokens. Thread-safe once filled. A search costs
// one table look-up per byte, and a walk at bytes that begin a special token.
class SpecialTokens {
 public:
  struct Hit {
    std::size_t at = std::string_view::npos;
    std::size_t bytes = 0;
    Token token = -1;
  };

  // Of two tokens with the same text the first counts. Empty texts are ignored.
  void add(std::string_view text, Token token, bool control);
  // The first place at or after `from` where a special token is spelled, and the longest one there;
  // control tokens only if `controls`, and none of `ignored`. Hit::at is npos where there is none.
  [[nodiscard]] Hit find(std::string_view text, std::size_t from, bool controls,
                         std::span<const Token> ignored = {}) const noexcept;
  // The token with exactly this text, or -1.
  [[nodiscard]] Token exact(std::string_view text) const noexcept;

 private:
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> children;
    Token token = -1;
    bool control = false;
  };
  [[nodiscard]] std::uint32_t child(std::uint32_t node, char byte) const noexcept;  // 0: none
  [[nodiscard]] Hit longest_at(std::string_view text, std::size_t at, bool controls,
                               std::span<const Token> ignored) const noexcept;

  std::vector<Node> nodes_{1};
  std::array<bool, 256> begins_any_{};
  std::array<bool, 256> begins_user_defined_{};
};

}  // namespace mzcache::engine
