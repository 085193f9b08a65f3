// Grammars: what they allow, byte by byte, and what is wrong with those that are none.
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>

#include "engine/grammar.h"
#include "engine/grammar_matcher.h"
#include "mzcache/grammar.h"
#include "support/catch.h"
#include "tokenizer_fixture.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

std::shared_ptr<const Grammar> parse(std::string_view text) {
  auto grammar = Grammar::parse(text);
  if (!grammar) FAIL(grammar.error().message());
  return *grammar;
}

enum class Fit { kNone, kBegins, kWhole };

// How a text fits a grammar.
Fit fit(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  GrammarMatcher::State state = matcher.start();
  for (const char byte : text) state = matcher.next(state, static_cast<std::uint8_t>(byte));
  if (state == GrammarMatcher::kDead) return Fit::kNone;
  return matcher.complete(state) ? Fit::kWhole : Fit::kBegins;
}

bool is_whole(std::string_view grammar, std::string_view text) {
  return fit(parse(grammar), text) == Fit::kWhole;
}

std::string error_of(std::string_view text) {
  const auto grammar = Grammar::parse(text);
  if (grammar.ok()) return "no error";
  CHECK(grammar.error().code == ErrorCode::kBadArgument);
  return grammar.error().message();
}

bool says(const std::string& message, std::string_view part) {
  INFO(message);
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("sequences, alternatives, groups and repetitions") {
  CHECK(is_whole("root ::= \"ab\" \"c\"", "abc"));
  CHECK(fit(parse("root ::= \"abc\""), "ab") == Fit::kBegins);
  CHECK(fit(parse("root ::= \"abc\""), "abd") == Fit::kNone);
  CHECK(fit(parse("root ::= \"abc\""), "abca") == Fit::kNone);
  const std::string either = "root ::= \"a\" | \"b\" x | ( \"c\" | \"d\" )  # said\nx ::= \"y\" |";
  for (const char* text : {"a", "b", "by", "c", "d"}) CHECK(is_whole(either, text));
  for (const char* text : {"", "ay", "cc", "y"}) CHECK_FALSE(is_whole(either, text));
  for (const auto& [grammar, least, most] :
       {std::tuple{"root ::= \"ab\"*", 0, 9}, std::tuple{"root ::= \"ab\"+", 1, 9},
        std::tuple{"root ::= \"ab\"?", 0, 1}, std::tuple{"root ::= \"ab\"{3}", 3, 3},
        std::tuple{"root ::= \"ab\"{2,}", 2, 9}, std::tuple{"root ::= \"ab\" { 2 , 4 }", 2, 4},
        std::tuple{"root ::= \"ab\"{0}", 0, 0}, std::tuple{"root ::= (\"a\" \"b\")*", 0, 9},
        std::tuple{"root ::= (\"ab\"*)*", 0, 9}, std::tuple{"root ::= (\"ab\"?)+", 0, 9},
        std::tuple{"root ::= r\nr ::= \"ab\" r | \"\"", 0, 9}}) {
    std::string text;
    for (int count = 0; count < 9; ++count, text += "ab") {
      INFO(grammar << " " << count);
      CHECK(is_whole(grammar, text) == (count >= least && count <= most));
      CHECK_FALSE(is_whole(grammar, text + "a"));
    }
  }
}

TEST_CASE("line breaks are white space, rules begin with a name and ::=") {
  CHECK(is_whole("root ::=\n  \"a\"\n  | \"b\"\n  other\n\nother ::= \"c\"\n", "bc"));
  CHECK(is_whole("# first\nother-1 ::= \"c\" root ::= other-1 \"d\" # last", "cd"));
}

TEST_CASE("characters are matched as UTF-8") {
  const std::string some = "root ::= [a-c\u00e9\u4e00-\u4e10\\U0001F600-\\U0001F64F\\x41]";
  for (const char* text : {"a", "c", "A", "\u00e9", "\u4e00", "\u4e10", "\U0001F600"}) {
    CHECK(is_whole(some, text));
  }
  for (const char* text : {"d", "\u00e8", "\u4e11", "\U0001F650", "\xC3", "\xE9"}) {
    CHECK_FALSE(is_whole(some, text));
  }
  CHECK(is_whole("root ::= \"\\u00e9\\n\\t\\r\\\\\\\"\\x7A\"", "\u00e9\n\t\r\\\"z"));
  CHECK(is_whole("root ::= [\\]\\-^]+", "]-^"));
  CHECK(is_whole("root ::= [-a]+", "-a-"));
  CHECK(is_whole("root ::= [a-]+", "-a-"));
}

// Every character, in classes with random ends, against a comparison of numbers.
TEST_CASE("classes have exactly their characters") {
  const std::uint64_t seed = 12;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  static constexpr char32_t kEdges[] = {0x7F,   0x80,   0x7FF,   0x800,   0xD7FF,
                                        0xE000, 0xFFFF, 0x10000, 0x10FFFF};
  const auto edge = [&random] {
    const auto below = [&random](std::uint64_t end) {
      return static_cast<char32_t>(random() % end);
    };
    const char32_t near = kEdges[random() % std::size(kEdges)] + below(5);
    const char32_t c = random() % 2 == 0 ? near - 2 : below(0x110000);
    return std::min<char32_t>(c >= 0xD800 && c < 0xE000 ? 0xD7FF : c, 0x10FFFF);
  };
  for (int i = 0; i < 60; ++i) {
    char32_t first = edge();
    char32_t last = edge();
    if (last < first) std::swap(first, last);
    const bool negated = i % 2 == 1;
    char text[64];
    std::snprintf(text, sizeof text, "root ::= [%s\\U%08X-\\U%08X]", negated ? "^" : "",
                  static_cast<unsigned>(first), static_cast<unsigned>(last));
    INFO(text);
    const auto parsed = Grammar::parse(text);
    if (!parsed.ok()) {  // nothing is left
      CHECK(negated);
      continue;
    }
    GrammarMatcher matcher(*parsed);
    std::size_t wrong = 0;
    for (char32_t c = 0; c <= 0x10FFFF; c += c < 0x11000 ? 1 : 97) {
      if (c == 0xD800) c = 0xE000;
      std::string spelled;
      test::append_utf8(spelled, c);
      GrammarMatcher::State state = matcher.start();
      for (const char byte : spelled) state = matcher.next(state, static_cast<std::uint8_t>(byte));
      wrong += matcher.complete(state) != ((c >= first && c <= last) != negated) ? 1 : 0;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("JSON, nested and with escapes") {
  const auto json = parse(json_grammar());
  for (const char* text :
       {R"({})", R"([])", R"({"a": {"b": [1, -2.5e+10, {"c": null}], "d": ""}})",
        R"({"s": "say \"hi\" \\ \/ \b\f\n\r\t \u00e9 \uD83D\uDE00 é 世界 😀"})",
        R"([[[[[[[[true]]]]], false]]])", "{\n  \"a\": 0\n}", R"({"a":[{},[],"]}"]})"}) {
    INFO(text);
    CHECK(fit(json, text) == Fit::kWhole);
    CHECK(nlohmann::json::accept(text));
  }
  for (const char* text :
       {R"("a")", R"({a: 1})", R"({"a" 1})", R"({"a": 01})", R"({"a": "\x"})", "{\"a\": \"\n\"}",
        R"([1,])", R"({"a": tru})", R"([1] )", R"(["\u12g4"])", R"([1]])", "[\"\x7f\"]", "[.5]"}) {
    INFO(text);
    CHECK(fit(json, text) != Fit::kWhole);
  }
}

// Random walks through what is allowed: each whole text is JSON, whatever the way.
TEST_CASE("whatever the JSON grammar allows is JSON") {
  const std::uint64_t seed = 21;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto json = parse(json_grammar());
  GrammarMatcher matcher(json);
  int whole = 0;
  for (int i = 0; i < 300; ++i) {
    GrammarMatcher::State state = matcher.start();
    std::string text;
    while (text.size() < 400 && !(matcher.complete(state) && text.size() > 1)) {
      // The closing half of the time, so that texts end.
      static constexpr std::string_view kClosing = "}]\"1e\\n:,";
      const bool close = random() % 2 == 0;
      const auto byte = static_cast<std::uint8_t>(
          close ? static_cast<unsigned char>(kClosing[random() % kClosing.size()]) : random());
      const GrammarMatcher::State next = matcher.next(state, byte);
      if (next == GrammarMatcher::kDead) continue;
      state = next;
      text += static_cast<char>(byte);
    }
    if (!matcher.complete(state)) continue;
    ++whole;
    if (!nlohmann::json::accept(text)) {
      INFO(text);
      CHECK(nlohmann::json::accept(text));
    }
  }
  CHECK(whole > 100);
}

TEST_CASE("states that are not needed can be given up anywhere") {
  const std::string text = R"({"a": [1, {"b": "x\ny", "c": [[], {}]}], "d": false})";
  const auto json = parse(json_grammar());
  GrammarMatcher matcher(json);
  GrammarMatcher::State state = matcher.start();
  for (const char byte : text) {
    state = matcher.forget_but(matcher.next(state, static_cast<std::uint8_t>(byte)));
    REQUIRE(state != GrammarMatcher::kDead);
    CHECK(matcher.size() <= 2);
  }
  CHECK(matcher.complete(state));
}

TEST_CASE("inside a string the state comes again, however long it is") {
  GrammarMatcher matcher(parse(json_grammar()));
  GrammarMatcher::State state = matcher.start();
  for (const char byte : std::string_view("[\"a")) {
    state = matcher.next(state, static_cast<std::uint8_t>(byte));
  }
  const GrammarMatcher::State inside = state;
  for (int i = 0; i < 10000; ++i) state = matcher.next(state, 'x');
  CHECK(state == inside);
  CHECK(matcher.size() < 100);
}

TEST_CASE("a grammar that is none is refused with the place") {
  CHECK(says(error_of(""), "there is no rule root"));
  CHECK(says(error_of("a ::= \"x\""), "there is no rule root"));
  CHECK(says(error_of("root ::= a\n  b ::= \"x\""), "line 1, column 10: there is no rule a"));
  CHECK(says(error_of("root ::= \"x\nb"), "line 1, column 10: this \" has no other"));
  CHECK(says(error_of("root ::= [a-z"), "column 10: this [ has no ]"));
  CHECK(says(error_of("root ::= (\"a\""), "column 10: this ( has no )"));
  CHECK(says(error_of("root ::= \"a\")"), "column 13: a ) without its ("));
  CHECK(says(error_of("root ::= [z-a]"), "a range from high to low"));
  CHECK(says(error_of("root ::= []"), "a class without characters"));
  CHECK(says(error_of("root ::= \"\\q\""), "column 11: no such escape"));
  CHECK(says(error_of("root ::= \"\\x4\""), "too few hexadecimal digits"));
  CHECK(says(error_of("root ::= \"\\uD800\""), "not a character (limit 10FFFF"));
  CHECK(says(error_of("root ::= \"a\"{2,1}"), "a repetition from high to low"));
  CHECK(says(error_of("root ::= \"a\"{20000}"), "too many repetitions, limit 10000"));
  CHECK(says(error_of("root ::= \"a\"{x}"), "expected a number"));
  CHECK(says(error_of("root ::= *"), "column 10: expected a"));
  CHECK(says(error_of("root = \"a\""), "line 1, column 1: a rule begins with its name and ::="));
  CHECK(says(error_of("root ::= \"a\"\nroot ::= \"b\""), "line 2, column 1: rule root is there"));
  CHECK(says(error_of("root ::= \"a\xff\""), "column 12: is not UTF-8"));
  CHECK(says(error_of("root ::= " + std::string(500, '(')), "nested too deep, limit 200"));
  std::string large = "root ::=";
  for (int i = 0; i < 30; ++i) large += " \"a\"{10000}";
  CHECK(says(error_of(large), "too many symbols, limit 200000"));
  CHECK(says(error_of(std::string((1U << 20U) + 1, ' ')), "limit 1048576"));
  CHECK(says(error_of("root ::= root \"a\" | \"b\""), "rule root can begin with itself"));
  CHECK(says(error_of("root ::= a \"x\" a ::= \"\" b \"y\" | \"z\" b ::= a?"),
             "can begin with itself"));
  CHECK(says(error_of("root ::= \"a\" root"), "rule root can never be completed"));
  CHECK(says(error_of("root ::= \"a\" | b b ::= \"b\" c c ::= \"c\" b"), "can never be completed"));
}

TEST_CASE("checking a grammar names the file") {
  CHECK_NOTHROW(check_grammar(json_grammar()));
  try {
    check_grammar("root ::= x", "my.gbnf");
    FAIL("no exception");
  } catch (const Exception& exception) {
    CHECK(says(exception.what(), "my.gbnf: line 1, column 10: there is no rule x"));
  }
}

// Pieces of grammars in any order: an error or a grammar, never more; and a grammar can be run.
TEST_CASE("random grammars") {
  const std::uint64_t seed = 77;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  static constexpr std::string_view kParts[] = {
      "root",  "::=",   " root ::= ", "\na ::= ", "a",       "b",          " ",      "\"x\"", "\"",
      "[a-z]", "[^x]",  "[",          "]",        "(",       ")",          "*",      "+",     "?",
      "{2}",   "{1,3}", "{,",         "|",        "| \"y\"", ".",          "\\n",    "\\xZZ", "\\",
      "#",     "\n",    "\xff",       "-",        "\"\"",    "( a | b )*", "\u4e16", "(a?)*"};
  int grammars = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string text = i % 3 == 0 ? "" : "root ::= a \na ::= \"x\" b\nb ::= \"\" | ";
    for (std::size_t n = random() % 14; n > 0; --n) text += kParts[random() % std::size(kParts)];
    const auto grammar = Grammar::parse(text);
    if (!grammar.ok()) {
      if (grammar.error().code != ErrorCode::kBadArgument) CHECK(text.empty());
      continue;
    }
    ++grammars;
    GrammarMatcher matcher(*grammar);
    GrammarMatcher::State state = matcher.start();
    for (int step = 0; step < 12; ++step) {
      state = matcher.next(state, static_cast<std::uint8_t>("xyabn\xE4\xB8\x96"[random() % 8]));
    }
  }
  CHECK(grammars > 1000);
}
