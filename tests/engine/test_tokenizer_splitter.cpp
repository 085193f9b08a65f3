// The words each splitter cuts.
#include <map>
#include <string>
#include <vector>

#include "engine/splitter.h"
#include "engine/tokenizer_utf8.h"
#include "tokenizer_fixture.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

using Words = std::vector<std::string>;

Words split(const std::string& name, std::string_view text) {
  static std::map<std::string, Splitter> made;
  auto found = made.find(name);
  if (found == made.end()) found = made.emplace(name, value_or_throw(Splitter::make(name))).first;
  Splitter::Cursor cursor(found->second, text);
  Words words;
  std::string_view word;
  while (cursor.next(word)) words.emplace_back(word);
  return words;
}

// The definition of "smollm": digits are cut out one by one, then GPT-2's expression splits the
// rest.
Words split_smollm_slowly(const std::string& text) {
  Words words;
  std::string rest;
  const auto flush = [&] {
    for (std::string& word : split("gpt-2", rest)) words.push_back(std::move(word));
    rest.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = utf8_step(std::string_view(text).substr(at)).bytes;
    const std::string one = text.substr(at, bytes);
    at += bytes;
    const bool number = split("gpt-2", "1" + one).size() == 1;  // only numbers join a number
    if (!number) {
      rest += one;
      continue;
    }
    flush();
    words.push_back(one);
  }
  flush();
  return words;
}

}  // namespace

TEST_CASE("GPT-2 words") {
  CHECK(split("gpt-2", "Hello, world's  end 123!\n\n x") ==
        Words{"Hello", ",", " world", "'s", " ", " end", " 123", "!", "\n\n", " x"});
  CHECK(split("gpt-2", "DON'T") == Words{"DON", "'", "T"});
  CHECK(split("gpt-2", "a   ") == Words{"a", "   "});
  CHECK(split("exaone4", "it'll 42") == Words{"it", "'ll", " 42"});
  CHECK(split("gpt-2", "").empty());
}

TEST_CASE("the words of the default splitter") {
  CHECK(split("default", "it'll 42") == Words{"it", "'", "ll", " ", "42"});
  CHECK(split("default", "a  12345 (x)  .") ==
        Words{"a", " ", " ", "123", "45", " ", "(", "x", ")", "  ", "."});
  CHECK(split("default", "1\u0663234\u00e9") == Words{"1\u0663", "234", "\u00e9"});
  CHECK(split("", "it'll 42") == split("default", "it'll 42"));
}

TEST_CASE("smollm words") {
  CHECK(split("smollm", "x  12 y") == Words{"x", "  ", "1", "2", " y"});
  CHECK(split("smollm", "a  b 3") == Words{"a", " ", " b", " ", "3"});
  CHECK(split("smollm", "\u00bd\u0663") == Words{"\u00bd", "\u0663"});
}

TEST_CASE("Llama 3 and Qwen 2 words") {
  CHECK(split("llama-bpe", "12345 DON'T(x) a\n\n  b") ==
        Words{"123", "45", " DON", "'T", "(x", ")", " a", "\n\n", " ", " b"});
  CHECK(split("qwen2", "12345 it's") == Words{"1", "2", "3", "4", "5", " it", "'s"});
  CHECK(split("qwen2", "x !!\r\n\n y") == Words{"x", " !!\r\n\n", " y"});
  CHECK(split("qwen2", " \n \n z") == Words{" \n \n", " z"});
}

TEST_CASE("white space is Unicode's White_Space") {
  CHECK(split("gpt-2", "\u3000\u2003\u0085") == Words{"\u3000\u2003\u0085"});
  CHECK(split("gpt-2", " \u180e!") == Words{" \u180e!"});  // a format character, no longer a space
  CHECK(split("gpt-2", " \u200b!") == Words{" \u200b!"});
}

TEST_CASE("bytes that are not UTF-8 are words of their own") {
  CHECK(split("gpt-2",
              "a\xff\xfe"
              "b") == Words{"a", "\xff\xfe", "b"});
  CHECK(split("qwen2", "\xe2\x82") == Words{"\xe2\x82"});
  CHECK(split("smollm", "\xed\xa0\x80 x") == Words{"\xed\xa0\x80", " x"});
}

TEST_CASE("smollm is GPT-2 between digits") {
  const std::uint64_t seed = 41;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = test::random_utf8(random);
    CAPTURE(i, text);
    REQUIRE(split("smollm", text) == split_smollm_slowly(text));
  }
}

TEST_CASE("UTF-8 is walked as Unicode tells") {
  const auto step = [](std::string_view text) {
    const Utf8Step one = utf8_step(text);
    return std::pair{one.state, one.bytes};
  };
  using S = Utf8State;
  CHECK(step("a") == std::pair{S::kWhole, std::size_t{1}});
  CHECK(step("\xc3\xa9z") == std::pair{S::kWhole, std::size_t{2}});
  CHECK(step("\xf0\x9f\x98\x80") == std::pair{S::kWhole, std::size_t{4}});
  CHECK(step("\xf0\x9f\x98") == std::pair{S::kPartial, std::size_t{3}});
  CHECK(step("\xf0\x9f\x98z") == std::pair{S::kInvalid, std::size_t{3}});
  CHECK(step("\xc0\x80") == std::pair{S::kInvalid, std::size_t{1}});      // overlong
  CHECK(step("\xe0\x80\x80") == std::pair{S::kInvalid, std::size_t{1}});  // overlong
  CHECK(step("\xed\xa0\x80") == std::pair{S::kInvalid, std::size_t{1}});  // surrogate
  CHECK(step("\xf4\x90\x80\x80") == std::pair{S::kInvalid, std::size_t{1}});
  CHECK(step("\x80") == std::pair{S::kInvalid, std::size_t{1}});
  CHECK(utf8_valid_prefix("0123456789abcdef\xc3\xa9 0123456789\xff") == 29);
  CHECK(utf8_valid_prefix("") == 0);
}
