// Ending an answer at a text, and not showing the beginning of that text before it is certain.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mzcache::engine {

// Feed it the answer piece by piece; how the answer is cut into pieces makes no difference. The
// stop string that is complete first matches; of several complete at the same byte the longest. For
// one thread.
class StopMatcher {
 public:
  // Empty strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  // The text that may be shown now: what came before the match, or all but the longest end that
  // could begin a stop string. Nothing after a match.
  [[nodiscard]] std::string push(std::string_view text);
  // The answer ended otherwise: what was held back.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool matched() const noexcept { return matched_ != kNone; }
  // The stop string that matched; empty before that.
  [[nodiscard]] std::string_view match() const noexcept;

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Stop {
    std::string text;
    std::vector<std::size_t> border;  // [n]: longest proper prefix of text[0, n) that also ends it
    std::size_t begun = 0;            // bytes of text that the answer so far ends with
  };
  // True if the stop string is complete with this byte.
  static bool advance(Stop& stop, char byte);

  std::vector<Stop> stops_;
  std::string held_;
  std::size_t matched_ = kNone;
};

}  // namespace mzcache::engine
