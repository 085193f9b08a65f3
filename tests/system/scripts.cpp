#include "system/scripts.h"

#include <sstream>

namespace mzcache::test {
namespace {

std::uint32_t tokens_of(const Script& script) {
  std::uint32_t tokens = 0;
  for (const Step& step : script) {
    if (const auto* feed = std::get_if<Feed>(&step)) tokens += feed->tokens;
  }
  return tokens;
}

void feed(System& system, std::span<const Token> tokens, Played& played) {
  std::vector<std::uint32_t> positions{0};
  if (tokens.size() > 1) positions.push_back(static_cast<std::uint32_t>(tokens.size() - 1));
  Evaluate message{system.session(), {tokens.begin(), tokens.end()}, positions};
  const LogitRows report = system.ask(std::move(message));
  played.recomputed = played.recomputed || report.restore.recomputed;
  played.rows.insert(played.rows.end(), report.values.begin(), report.values.end());
}

}  // namespace

Played play(System& system, const Script& script) {
  system.reset();
  const auto tokens = made_up_tokens(tokens_of(script), system.model().info().vocabulary);
  Played played;
  std::size_t at = 0;
  for (const Step& step : script) {
    if (const auto* fed = std::get_if<Feed>(&step)) {
      feed(system, std::span(tokens).subspan(at, fed->tokens), played);
      at += fed->tokens;
    } else if (const auto* evict = std::get_if<EvictPercent>(&step)) {
      played.evictions.push_back(system.evict(evict->percent));
    } else {
      (void)system.restore();
    }
  }
  return played;
}

Script only_feeds(const Script& script) {
  Script feeds;
  for (const Step& step : script) {
    if (std::holds_alternative<Feed>(step)) feeds.push_back(step);
  }
  return feeds;
}

std::string describe(const Script& script) {
  std::ostringstream text;
  for (const Step& step : script) {
    if (const auto* fed = std::get_if<Feed>(&step)) {
      text << " feed " << fed->tokens;
    } else if (const auto* evict = std::get_if<EvictPercent>(&step)) {
      text << " evict " << evict->percent << '%';
    } else {
      text << " restore";
    }
  }
  return text.str();
}

}  // namespace mzcache::test
