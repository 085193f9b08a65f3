#include "engine/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace mzcache::engine {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFU;
constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

std::uint64_t pair_of(Token left, Token right) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32U | static_cast<std::uint32_t>(right);
}

}  // namespace

BpeMerges::BpeMerges(std::size_t merges_max) {
  const std::size_t count = std::bit_ceil(std::max<std::size_t>(2 * merges_max, 2));
  slots_.assign(count, Slot{kEmpty, {}});
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(count));
}

std::size_t BpeMerges::slot(std::uint64_t pair) const noexcept {
  std::size_t at = (pair * 0x9E3779B97F4A7C15ULL) >> shift_;
  while (slots_[at].pair != pair && slots_[at].pair != kEmpty) at = (at + 1) & (slots_.size() - 1);
  return at;
}

void BpeMerges::add(Token left, Token right, Merge merge) {
  Slot& place = slots_[slot(pair_of(left, right))];
  if (place.pair == kEmpty) place = {pair_of(left, right), merge};
}

const BpeMerges::Merge* BpeMerges::find(Token left, Token right) const noexcept {
  if (left < 0 || right < 0) return nullptr;
  const Slot& place = slots_[slot(pair_of(left, right))];
  return place.pair == kEmpty ? nullptr : &place.merge;
}

// Looks up the pair that begins at `left`; the caller queues it.
void BpeMerger::pair_up(std::uint32_t left) {
  Symbol& symbol = symbols_[left];
  const BpeMerges::Merge* merge =
      symbol.next == kNone ? nullptr : merges_.find(symbol.id, symbols_[symbol.next].id);
  symbol.rank = merge == nullptr ? kNone : merge->rank;
  symbol.merged = merge == nullptr ? -1 : merge->merged;
}

void BpeMerger::apply(std::uint32_t left) {
  Symbol& symbol = symbols_[left];
  Symbol& gone = symbols_[symbol.next];
  symbol.id = symbol.merged;
  symbol.next = gone.next;
  gone.rank = kNone;
  if (symbol.next != kNone) symbols_[symbol.next].previous = left;
  for (const std::uint32_t at : {symbol.previous, left}) {
    if (at == kNone) continue;
    pair_up(at);
    if (symbols_[at].rank == kNone) continue;
    heap_.push_back(std::uint64_t{symbols_[at].rank} << 32U | at);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
}

void BpeMerger::merge(std::span<const Token> symbols, std::vector<Token>& tokens) {
  if (symbols.empty()) return;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  symbols_.resize(count);
  heap_.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols_[i] = {symbols[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1, kNone, -1};
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    pair_up(i);
    if (symbols_[i].rank != kNone) heap_.push_back(std::uint64_t{symbols_[i].rank} << 32U | i);
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const std::uint64_t best = heap_.back();
    heap_.pop_back();
    const auto left = static_cast<std::uint32_t>(best);
    if (symbols_[left].rank == static_cast<std::uint32_t>(best >> 32U)) apply(left);
  }
  for (std::uint32_t i = 0; i != kNone; i = symbols_[i].next) {
    if (symbols_[i].id >= 0) tokens.push_back(symbols_[i].id);
  }
}

}  // namespace mzcache::engine
