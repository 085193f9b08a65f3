#include <random>

#include "engine/stop_strings.h"
#include "support/catch.h"

using namespace mzcache::engine;

namespace {

struct Outcome {
  std::string shown;
  std::string match;
  bool operator==(const Outcome&) const = default;
};

// Looks at the text byte by byte: the first byte at which stop strings end, and the longest of
// them.
Outcome slowly(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop) && stop.size() > best.size()) best = stop;
    }
    if (!best.empty()) return {text.substr(0, end - best.size()), best};
  }
  return {text, ""};
}

}  // namespace

TEST_CASE("a stop string is held back until it is certain") {
  StopMatcher stops({"END"});
  CHECK(stops.push("the E") == "the ");
  CHECK(stops.push("N") == "");
  CHECK(stops.push("TRY") == "ENTRY");
  CHECK(stops.push(" E") == " ");
  CHECK(stops.push("ND and more") == "");
  CHECK(stops.matched());
  CHECK(stops.match() == "END");
  CHECK(stops.push("more").empty());
  CHECK(stops.finish().empty());
}

TEST_CASE("what was held back comes at the end") {
  StopMatcher stops({"###", ""});
  CHECK(stops.push("a##") == "a");
  CHECK(stops.push("") == "");
  CHECK_FALSE(stops.matched());
  CHECK(stops.match().empty());
  CHECK(stops.finish() == "##");
  CHECK(stops.finish().empty());
}

TEST_CASE("candidates overlap") {
  StopMatcher repeated({"aab"});
  CHECK(repeated.push("aaa") == "a");
  CHECK(repeated.push("b!") == "");
  CHECK(repeated.match() == "aab");

  StopMatcher inner({"abcd", "bc"});
  CHECK(inner.push("xab") == "x");
  CHECK(inner.push("cd") == "a");
  CHECK(inner.match() == "bc");

  StopMatcher longest({"\n", "\n\nUser:", ":", "User:"});
  CHECK(longest.push("hi User") == "hi ");
  CHECK(longest.push(":") == "");
  CHECK(longest.match() == "User:");
}

TEST_CASE("no stop strings hold nothing back") {
  StopMatcher none({});
  CHECK(none.push("anything") == "anything");
  CHECK(none.finish().empty());
}

TEST_CASE("characters of several bytes stay whole") {
  StopMatcher stops({"\u20ac!"});
  CHECK(stops.push("5 \u20ac") == "5 ");
  CHECK(stops.push("\u20ad") == "\u20ac\u20ad");
}

TEST_CASE("stop strings match however the text is cut") {
  const std::uint64_t seed = 61;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto word = [&](std::size_t least, std::size_t most) {
    std::string text(least + random() % (most - least + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::string> stops(1 + random() % 4);
    for (std::string& stop : stops) stop = word(1, 6);
    const std::string text = word(0, 40);
    StopMatcher matcher(stops);
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = 1 + random() % 5;
      shown += matcher.push(std::string_view(text).substr(at, bytes));
      at += bytes;
      // Shown text is never taken back, so it must be the start of what is right.
      REQUIRE(slowly(stops, text).shown.starts_with(shown));
    }
    shown += matcher.finish();
    CAPTURE(i, text, stops);
    REQUIRE(Outcome{shown, std::string(matcher.match())} == slowly(stops, text));
  }
}
