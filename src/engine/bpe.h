// Byte-pair encoding: the merge table, and merging one word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/tokenizer.h"

namespace mzcache::engine {

// Pairs of tokens that merge, with their rank: the lowest rank merges first. Thread-safe once
// filled.
class BpeMerges {
 public:
  struct Merge {
    std::uint32_t rank = 0;
    Token merged = -1;
  };

  explicit BpeMerges(std::size_t merges_max = 0);
  // At most merges_max calls. Of a pair given twice the first counts. Ids are not negative.
  void add(Token left, Token right, Merge merge);
  // Null where the pair does not merge; a negative id never merges.
  [[nodiscard]] const Merge* find(Token left, Token right) const noexcept;

 private:
  struct Slot {
    std::uint64_t pair;
    Merge merge;
  };
  [[nodiscard]] std::size_t slot(std::uint64_t pair) const noexcept;

  std::vector<Slot> slots_;  // open addressing, at most half full
  unsigned shift_ = 63;
};

// Working memory to merge words in, reused from word to word. For one thread.
class BpeMerger {
 public:
  explicit BpeMerger(const BpeMerges& merges) : merges_(merges) {}
  // Merges the symbols of one word until no pair merges (lowest rank first, leftmost among equals)
  // and appends what is left to `tokens`, without negative ids, which stand for bytes that have no
  // token. O(n log n); at most 2^31 symbols.
  void merge(std::span<const Token> symbols, std::vector<Token>& tokens);

 private:
  struct Symbol {
    Token id;
    std::uint32_t previous;
    std::uint32_t next;
    std::uint32_t rank;  // of the pair this symbol begins, kNone if it does not merge
    Token merged;
  };
  void pair_up(std::uint32_t left);
  void apply(std::uint32_t left);

  const BpeMerges& merges_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t> heap_;  // rank, then position of the pair; stale entries are skipped
};

}  // namespace mzcache::engine
