// A vocabulary in the order of its tokens' bytes: neighbours share their beginnings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer.h"

namespace mzcache::engine {

// Immutable, so thread-safe. Holds tokens that are text (control tokens are none), and which ids
// end an answer.
class TokenIndex {
 public:
  explicit TokenIndex(const Tokenizer& tokenizer);

  struct Entry {
    Token token = 0;
    std::uint32_t offset = 0;  // of its bytes in all of them
    std::uint16_t bytes = 0;
    std::uint16_t shared = 0;  // bytes at the start that are as in the entry before
  };
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] std::string_view text(const Entry& entry) const noexcept {
    return std::string_view(bytes_).substr(entry.offset, entry.bytes);
  }
  [[nodiscard]] std::string_view text(Token token) const noexcept;  // empty where it is none
  [[nodiscard]] const std::vector<Token>& ends() const noexcept { return ends_; }
  [[nodiscard]] std::size_t vocabulary() const noexcept { return place_.size(); }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> place_;  // of a token in entries_
  std::vector<Token> ends_;
};

}  // namespace mzcache::engine
