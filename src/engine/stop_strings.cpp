#include "engine/stop_strings.h"

#include <algorithm>
#include <utility>

namespace mzcache::engine {

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    if (text.empty()) continue;
    Stop stop;
    stop.border.resize(text.size() + 1, 0);
    for (std::size_t n = 2; n <= text.size(); ++n) {  // Knuth, Morris and Pratt's failure function
      std::size_t border = stop.border[n - 1];
      while (border > 0 && text[border] != text[n - 1]) border = stop.border[border];
      stop.border[n] = text[border] == text[n - 1] ? border + 1 : 0;
    }
    stop.text = std::move(text);
    stops_.push_back(std::move(stop));
  }
}

bool StopMatcher::advance(Stop& stop, char byte) {
  while (stop.begun > 0 && stop.text[stop.begun] != byte) stop.begun = stop.border[stop.begun];
  if (stop.text[stop.begun] == byte) ++stop.begun;
  return stop.begun == stop.text.size();
}

std::string StopMatcher::push(std::string_view text) {
  if (matched()) return {};
  for (const char byte : text) {
    held_ += byte;
    for (std::size_t i = 0; i < stops_.size(); ++i) {
      if (!advance(stops_[i], byte)) continue;
      if (!matched() || stops_[i].text.size() > stops_[matched_].text.size()) matched_ = i;
    }
    if (matched()) {
      held_.resize(held_.size() - stops_[matched_].text.size());
      return std::exchange(held_, {});
    }
  }
  std::size_t begun = 0;
  for (const Stop& stop : stops_) begun = std::max(begun, stop.begun);
  std::string safe = held_.substr(0, held_.size() - begun);
  held_.erase(0, safe.size());
  return safe;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

std::string_view StopMatcher::match() const noexcept {
  return matched() ? std::string_view(stops_[matched_].text) : std::string_view();
}

}  // namespace mzcache::engine
