// The byte-level BPE tokenizer over a small vocabulary.
#include <algorithm>
#include <thread>

#include "engine/bpe.h"
#include "engine/bpe_alphabet.h"
#include "engine/splitter.h"
#include "engine/tokenizer.h"
#include "tokenizer_fixture.h"

using namespace mzcache;
using namespace mzcache::engine;
using test::SmallVocabulary;

namespace {

constexpr Tokenizer::Options kPlain{.parse_special = false, .add_bos = false};
constexpr Tokenizer::Options kSpecial{.parse_special = true, .add_bos = false};

// What BpeMerger does, as the paper tells it: while a pair merges, merge the leftmost of the lowest
// rank.
std::vector<Token> merge_slowly(const BpeMerges& merges, std::vector<Token> symbols) {
  for (;;) {
    std::size_t best = symbols.size();
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto* merge = merges.find(symbols[i], symbols[i + 1]);
      if (merge == nullptr) continue;
      if (best == symbols.size() ||
          merge->rank < merges.find(symbols[best], symbols[best + 1])->rank) {
        best = i;
      }
    }
    if (best == symbols.size()) break;
    symbols[best] = merges.find(symbols[best], symbols[best + 1])->merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::erase_if(symbols, [](Token token) { return token < 0; });
  return symbols;
}

}  // namespace

TEST_CASE("merging words agrees with merging them slowly") {
  const std::uint64_t seed = 11;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int table = 0; table < 50; ++table) {
    const auto letters = static_cast<Token>(2 + random() % 4);
    Token next = letters;
    BpeMerges merges(40);
    for (std::uint32_t rank = 0; rank < 40; ++rank) {
      const auto left = static_cast<Token>(random() % next);
      const auto right = static_cast<Token>(random() % next);
      // Some pairs come twice, and some merge into a token that another pair makes as well.
      merges.add(left, right, {rank, random() % 8 == 0 ? left : next});
      ++next;
    }
    BpeMerger merger(merges);
    for (int word = 0; word < 100; ++word) {
      std::vector<Token> symbols(random() % 60);
      for (Token& symbol : symbols) symbol = static_cast<Token>(random() % (letters + 1)) - 1;
      std::vector<Token> merged{-7};
      merger.merge(symbols, merged);
      merged.erase(merged.begin());
      REQUIRE(merged == merge_slowly(merges, symbols));
    }
  }
}

TEST_CASE("the first of two equal pairs counts") {
  BpeMerges merges(2);
  merges.add(0, 1, {5, 2});
  merges.add(0, 1, {9, 3});
  REQUIRE(merges.find(0, 1) != nullptr);
  CHECK(merges.find(0, 1)->rank == 5);
  CHECK(merges.find(0, 1)->merged == 2);
  CHECK(merges.find(1, 0) == nullptr);
  CHECK(merges.find(-1, -1) == nullptr);
  CHECK(BpeMerges().find(0, 1) == nullptr);
}

TEST_CASE("every byte has its own letter") {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<unsigned char>(byte);
    CHECK(bpe_unspell(bpe_spell(value)) == std::string(1, static_cast<char>(value)));
  }
  CHECK(bpe_spell(' ') == "\u0120");
  CHECK(bpe_spell('\n') == "\u010a");
  CHECK(bpe_spell('A') == "A");
  CHECK(bpe_unspell("\u4e16\u0120\u0143\u0144 y") ==
        "\u4e16 \xAD\u0144 y");  // not letters: as they are
  CHECK(bpe_unspell("\xC3") == "\xC3");
}

TEST_CASE("random texts come back through every splitter") {
  SmallVocabulary small = test::small_vocabulary();
  test::check_round_trips(*small.make("smollm"), 21);
  test::check_round_trips(*small.make("gpt-2"), 22);
  test::check_round_trips(*small.make("llama-bpe"), 23);
  test::check_round_trips(*small.make("qwen2"), 24);
}

// Remembering words must not change them: the tokens of a text are those of its words.
TEST_CASE("words seen before give the tokens they gave") {
  SmallVocabulary small = test::small_vocabulary();
  const auto tokenizer = small.make("gpt-2");
  const auto splitter = Splitter::make("gpt-2");
  REQUIRE(splitter.ok());
  const std::uint64_t seed = 31;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::string text;
  for (int i = 0; i < 3000; ++i) text += " w" + std::to_string(random() % 400) + "the";
  std::vector<Token> expected;
  Splitter::Cursor cursor(*splitter, text);
  std::string_view word;
  while (cursor.next(word)) {
    const auto tokens = tokenizer->encode(word, kPlain);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  }
  CHECK(tokenizer->encode(text, kPlain) == expected);
}

TEST_CASE("long runs of one thing are tokenized, and come back") {
  SmallVocabulary small = test::small_vocabulary();
  for (const char* name : {"smollm", "gpt-2", "llama-bpe", "qwen2"}) {
    const auto tokenizer = small.make(name);
    for (const std::string unit : {"a", " ", "\n", "\U0001F600", "ab", " x", "\xff", "\xff ", "1",
                                   "'", " \n", "<|im_start|>"}) {
      std::string text;
      while (text.size() < (1U << 20U)) text += unit;
      text += "x";
      const auto tokens = tokenizer->encode(text, kSpecial);
      INFO(name << " " << unit);
      REQUIRE(test::text_of(*tokenizer, tokens) == text);
    }
  }
}

TEST_CASE("special tokens are found in text, the longest first") {
  SmallVocabulary small = test::small_vocabulary();
  const Token start = small.add("<|im_start|>", TokenKind::kControl);
  const Token longer = small.add("<|im_start|>x", TokenKind::kControl);
  const Token think = small.add("<think>", TokenKind::kUserDefined);
  const Token unknown = small.add("<unk>", TokenKind::kUnknown);
  small.add("", TokenKind::kControl);
  const auto tokenizer = small.make("gpt-2");

  CHECK(tokenizer->encode("<|im_start|>", kSpecial) == std::vector{start});
  CHECK(tokenizer->encode("<|im_start|>x<|im_start|>", kSpecial) == std::vector{longer, start});
  CHECK(tokenizer->encode("<think><unk>", kSpecial) == std::vector{think, unknown});
  CHECK(tokenizer->encode("<<|im_start|>>", kSpecial) ==
        std::vector<Token>{Token{'<'}, start, Token{'>'}});
  CHECK(tokenizer->special("<|im_start|>") == start);
  CHECK(tokenizer->special("<think>") == think);
  CHECK(tokenizer->special("<|im_start") == -1);
  CHECK(tokenizer->special("the") == -1);
  CHECK(tokenizer->special("") == -1);

  // Plain text spells no control token; a user-defined token is text.
  const auto plain = tokenizer->encode("<|im_start|><think>", kPlain);
  CHECK(std::count(plain.begin(), plain.end(), start) == 0);
  CHECK(std::count(plain.begin(), plain.end(), think) == 1);
  CHECK(test::text_of(*tokenizer, plain) == "<|im_start|><think>");

  CHECK(tokenizer->piece(start, false).empty());
  CHECK(tokenizer->piece(start, true) == "<|im_start|>");
  CHECK(tokenizer->piece(think, false) == "<think>");
  CHECK(tokenizer->piece(-1, true).empty());
  CHECK(tokenizer->piece(static_cast<Token>(tokenizer->size()), true).empty());
}

TEST_CASE("BOS comes first where the file asks for it") {
  SmallVocabulary small = test::small_vocabulary();
  small.vocabulary.bos = small.add("<s>", TokenKind::kControl);
  const auto bos = static_cast<Token>(small.vocabulary.bos);
  CHECK(small.make("gpt-2")->encode("", {}).empty());
  CHECK(small.make("llama-bpe")->encode("", {}) == std::vector{bos});  // the format's default
  small.vocabulary.add_bos = true;
  CHECK(small.make("gpt-2")->encode("", {}) == std::vector{bos});
  CHECK(small.make("gpt-2")->encode("", kPlain).empty());
  small.vocabulary.add_bos = false;
  CHECK(small.make("llama-bpe")->encode("", {}).empty());
  small.vocabulary.add_bos = true;
  small.vocabulary.bos = -1;
  CHECK(small.make("gpt-2")->encode("", {}).empty());
  CHECK(small.make("gpt-2")->bos() == -1);
}

TEST_CASE("a generation ends at every token that ends a turn") {
  SmallVocabulary small = test::small_vocabulary();
  small.vocabulary.eos = small.add("<e>", TokenKind::kControl);
  small.vocabulary.eot = small.add("<t>", TokenKind::kControl);
  small.vocabulary.eom = small.add("<m>", TokenKind::kControl);
  const Token known = small.add("<end_of_turn>", TokenKind::kNormal);  // files get this wrong
  const auto tokenizer = small.make("gpt-2");
  CHECK(tokenizer->eos() == small.vocabulary.eos);
  for (const std::int64_t id : {small.vocabulary.eos, small.vocabulary.eot, small.vocabulary.eom}) {
    CHECK(tokenizer->ends_generation(static_cast<Token>(id)));
  }
  CHECK(tokenizer->ends_generation(known));
  CHECK(tokenizer->piece(known, false).empty());
  CHECK_FALSE(tokenizer->ends_generation('a'));
  CHECK_FALSE(tokenizer->ends_generation(-1));
}

TEST_CASE("a word in the vocabulary skips merging for llama-bpe alone") {
  SmallVocabulary small = test::small_vocabulary();
  const Token word = small.add("zqzqz", TokenKind::kNormal);
  CHECK(small.make("llama-bpe")->encode("zqzqz", kPlain) == std::vector{word});
  CHECK(small.make("qwen2")->encode("zqzqz", kPlain).size() == 5);
}

TEST_CASE("merges that name unknown tokens never apply, bytes without a token are left out") {
  SmallVocabulary small;
  for (const char* token : {"a", "b", "ab", "<0x0A>"}) small.add(token, TokenKind::kNormal);
  small.kinds.back() = static_cast<std::int64_t>(TokenKind::kByte);
  small.merges = {"a x", "ab c", "nospace", "", " ", "a b"};
  const auto tokenizer = small.make("gpt-2");
  CHECK(tokenizer->encode("abcab a", kPlain) == std::vector<Token>{2, 2, 0});
  CHECK(tokenizer->encode("\n", kPlain) == std::vector<Token>{3});
  CHECK(tokenizer->piece(3, false) == "\n");
}

TEST_CASE("threads share a tokenizer") {
  SmallVocabulary small = test::small_vocabulary();
  const auto tokenizer = small.make("smollm");
  const std::string text = "the other theme, 1234 na\u00efve \U0001F600 then";
  const auto expected = tokenizer->encode(text, kPlain);
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) count += tokenizer->encode(text, kPlain) == expected ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::array<int, 4>{});
}

TEST_CASE("broken vocabularies are refused, with the reason") {
  const auto error_of = [](SmallVocabulary& small, const std::string& splitter) {
    const auto made = make_tokenizer(small.view(splitter));
    REQUIRE_FALSE(made.ok());
    return made.error();
  };
  const auto contains = [](const Error& error, const std::string& part) {
    INFO(error.message());
    CHECK(error.message().find(part) != std::string::npos);
  };
  SmallVocabulary small = test::small_vocabulary();
  const auto count = small.tokens.size();

  Error error = error_of(small, "klingon");
  CHECK(error.code == ErrorCode::kUnsupported);
  for (const char* part : {"klingon", "smollm", "gpt-2", "llama-bpe", "qwen2", "small"}) {
    contains(error, part);
  }
  small.vocabulary.eos = static_cast<std::int64_t>(count);
  error = error_of(small, "gpt-2");
  CHECK(error.code == ErrorCode::kBadFormat);
  contains(error, "eos_token_id = " + std::to_string(count));
  small.vocabulary.eos = -1;
  small.kinds[7] = 9;
  contains(error_of(small, "gpt-2"), "token_type[7] = 9");
  small.kinds.pop_back();
  contains(error_of(small, "gpt-2"), "token_type has " + std::to_string(count - 1));
  small.tokens.clear();
  contains(error_of(small, "gpt-2"), "tokenizer.ggml.tokens");

  Vocabulary other = small.view("gpt-2");
  other.model = "bert";
  const auto made = make_tokenizer(other);
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().code == ErrorCode::kUnsupported);
  contains(made.error(), "bert");
  contains(made.error(), "gpt2");
}
