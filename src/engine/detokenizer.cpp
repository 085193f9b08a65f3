#include "engine/tokenizer.h"
#include "engine/tokenizer_utf8.h"

namespace mzcache::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string IncrementalDetokenizer::push(Token token) {
  pending_ += tokenizer_->piece(token, false);
  std::string complete;
  std::size_t at = 0;
  while (at < pending_.size()) {
    const std::string_view rest = std::string_view(pending_).substr(at);
    const std::size_t valid = utf8_valid_prefix(rest);
    complete += rest.substr(0, valid);
    at += valid;
    if (valid == rest.size()) break;
    const Utf8Step step = utf8_step(rest.substr(valid));
    if (step.state == Utf8State::kPartial) break;
    complete += kReplacement;
    at += step.bytes;
  }
  pending_.erase(0, at);
  return complete;
}

std::string IncrementalDetokenizer::finish() {
  const bool unfinished = !pending_.empty();  // at most one partial character: push() took the rest
  pending_.clear();
  return unfinished ? std::string(kReplacement) : std::string();
}

}  // namespace mzcache::engine
