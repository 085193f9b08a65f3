#include "engine/grammar_constraint.h"

#include <algorithm>
#include <utility>

namespace mzcache::engine {

using State = GrammarMatcher::State;

GrammarConstraint::GrammarConstraint(std::shared_ptr<const Grammar> grammar,
                                     std::shared_ptr<const TokenIndex> index)
    : index_(std::move(index)), matcher_(std::move(grammar)), state_(matcher_.start()) {}

// Walks the vocabulary in the order of its bytes: a beginning that tokens share is walked once, and
// where it leads nowhere all of them are passed over.
GrammarConstraint::Mask GrammarConstraint::work_out() {
  Mask mask;
  mask.bits.assign((index_->vocabulary() + 63) / 64, 0);
  const auto allow = [&mask](Token token) {
    mask.bits[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64U);
    mask.empty = false;
  };
  if (matcher_.complete(state_)) {
    for (const Token end : index_->ends()) allow(end);
  }
  path_.assign(1, state_);
  std::size_t dead = static_cast<std::size_t>(-1);  // so many bytes of the last walk lead nowhere
  for (const TokenIndex::Entry& entry : index_->entries()) {
    if (entry.shared >= dead) continue;
    dead = static_cast<std::size_t>(-1);
    path_.resize(entry.shared + std::size_t{1});
    const std::string_view text = index_->text(entry);
    for (std::size_t at = entry.shared; at < text.size(); ++at) {
      const State next = matcher_.next(path_.back(), static_cast<std::uint8_t>(text[at]));
      if (next == GrammarMatcher::kDead) {
        dead = at + 1;
        break;
      }
      path_.push_back(next);
    }
    if (dead > text.size()) allow(entry.token);
  }
  return mask;
}

const GrammarConstraint::Mask& GrammarConstraint::mask() {
  if (const auto known = masks_.find(state_); known != masks_.end()) return known->second;
  if (masks_.size() >= kMasksMax) masks_.clear();
  if (matcher_.size() > kStatesMax) {
    masks_.clear();
    state_ = matcher_.forget_but(state_);
  }
  return masks_.try_emplace(state_, work_out()).first->second;
}

std::span<const std::uint64_t> GrammarConstraint::allowed() { return mask().bits; }

bool GrammarConstraint::nothing_allowed() { return mask().empty; }

void GrammarConstraint::accept(Token token) {
  const auto& ends = index_->ends();
  if (std::find(ends.begin(), ends.end(), token) != ends.end()) return;
  const std::string_view text = index_->text(token);
  if (text.empty()) state_ = GrammarMatcher::kDead;
  for (const char byte : text) state_ = matcher_.next(state_, static_cast<std::uint8_t>(byte));
}

}  // namespace mzcache::engine
