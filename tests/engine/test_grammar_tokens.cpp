// Which tokens a grammar allows, and answers that follow one.
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "engine/answer_source.h"
#include "engine/grammar_constraint.h"
#include "mzcache/grammar.h"
#include "tokenizer_fixture.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

std::shared_ptr<const Tokenizer> vocabulary() {
  static const auto kMade = [] {
    test::SmallVocabulary small = test::small_vocabulary();
    small.vocabulary.eos = small.add("<|end|>", TokenKind::kControl);
    small.add("<|other|>", TokenKind::kControl);
    for (const char* text :
         {"{\"", "\":", "},{", "[[", "]}", "true", "\\\"", "\",\"", "tru", "null"}) {
      std::string spelled;
      for (const char byte : std::string_view(text)) {
        spelled += engine::bpe_spell(static_cast<unsigned char>(byte));
      }
      small.add(spelled, TokenKind::kNormal);
    }
    return small.make("gpt-2");
  }();
  return kMade;
}

std::shared_ptr<const TokenIndex> token_index() {
  static const auto kIndex = std::make_shared<const TokenIndex>(*vocabulary());
  return kIndex;
}

std::shared_ptr<const Grammar> parse(std::string_view text) {
  auto grammar = Grammar::parse(text);
  if (!grammar) FAIL(grammar.error().message());
  return *grammar;
}

bool has(std::span<const std::uint64_t> mask, Token token) {
  return (mask[static_cast<std::size_t>(token) / 64] >> (token % 64U) & 1U) != 0;
}

// Token by token, from the start of the text: the obvious way.
bool allowed_slowly(const std::shared_ptr<const Grammar>& grammar, const std::string& before,
                    Token token) {
  GrammarMatcher matcher(grammar);
  GrammarMatcher::State state = matcher.start();
  const std::string piece = vocabulary()->piece(token, false);
  for (const char byte : before + piece) {
    state = matcher.next(state, static_cast<std::uint8_t>(byte));
  }
  if (vocabulary()->ends_generation(token)) return matcher.complete(state);
  return !piece.empty() && state != GrammarMatcher::kDead;
}

// An answer with random logits, until it stops.
struct Answered {
  std::string text;
  StopReason stop = StopReason::kLength;
  std::vector<Token> tokens;
};

Answered answer(std::string_view grammar, std::uint64_t seed, GenerateOptions options = {}) {
  std::mt19937_64 random(seed);
  AnswerSource source(vocabulary(), options,
                      std::make_unique<GrammarConstraint>(parse(grammar), token_index()), {});
  Answered answered;
  std::vector<float> logits(vocabulary()->size());
  for (;;) {
    for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 100.0F;
    const auto decision = source.next(logits, answered.tokens);
    answered.tokens.push_back(decision.token);
    if (!decision.stop) continue;
    answered.stop = *decision.stop;
    break;
  }
  source.finish();
  answered.text = source.text();
  return answered;
}

}  // namespace

TEST_CASE("the index holds every token that is text, in order") {
  std::size_t texts = 0;
  for (Token token = 0; token < static_cast<Token>(vocabulary()->size()); ++token) {
    const std::string piece = vocabulary()->piece(token, false);
    CHECK(token_index()->text(token) == piece);
    texts += piece.empty() ? 0 : 1;
  }
  CHECK(token_index()->entries().size() == texts);
  CHECK(token_index()->ends() == std::vector<Token>{vocabulary()->eos()});
  CHECK(token_index()->text(-1).empty());
  CHECK(token_index()->text(static_cast<Token>(vocabulary()->size())).empty());
  std::string before;
  for (const auto& entry : token_index()->entries()) {
    const std::string text(token_index()->text(entry));
    CHECK(before <= text);
    CHECK(text.substr(0, entry.shared) == before.substr(0, entry.shared));
    before = text;
  }
}

TEST_CASE("the allowed tokens are those that go on towards a whole text") {
  const std::uint64_t seed = 41;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (const std::string_view text :
       {json_grammar(), std::string_view("root ::= [a-z ]{0,9} \"the\"? | \"\u4e16\" .+"),
        std::string_view("root ::= (\"aaaa\" | \"aa\" \"b\")*")}) {
    const auto grammar = parse(text);
    GrammarConstraint constraint(grammar, token_index());
    std::string so_far;
    for (int step = 0; step < 25; ++step) {
      const auto mask = constraint.allowed();
      std::vector<Token> some;
      for (Token token = 0; token < static_cast<Token>(vocabulary()->size()); ++token) {
        const bool in = has(mask, token);
        if (in != allowed_slowly(grammar, so_far, token)) {
          CAPTURE(so_far, token, vocabulary()->piece(token, true));
          CHECK(in == allowed_slowly(grammar, so_far, token));
        }
        if (in && !vocabulary()->ends_generation(token)) some.push_back(token);
      }
      CHECK(constraint.nothing_allowed() == (some.empty() && !constraint.complete()));
      if (some.empty()) break;
      const Token token = some[random() % some.size()];
      constraint.accept(token);
      so_far += vocabulary()->piece(token, false);
    }
  }
}

TEST_CASE("answers follow their grammar, whatever the model would say") {
  int ended = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    GenerateOptions options;
    options.max_tokens = 300;
    options.seed = seed;
    options.temperature = seed % 2 == 0 ? 0.0F : 1.5F;
    options.top_k = seed % 3 == 0 ? 5 : 0;
    const Answered answered = answer(json_grammar(), seed, options);
    if (answered.stop != StopReason::kEos) continue;
    ++ended;
    INFO(answered.text);
    CHECK(nlohmann::json::accept(answered.text));
  }
  CHECK(ended > 10);
}

TEST_CASE("an answer that can only end, ends") {
  const Answered yes = answer("root ::= \"yes\"", 3);
  CHECK(yes.text == "yes");
  CHECK(yes.stop == StopReason::kEos);
  CHECK(yes.tokens.back() == vocabulary()->eos());

  test::SmallVocabulary small = test::small_vocabulary();  // no token ends an answer
  const auto endless = small.make("gpt-2");
  AnswerSource source(endless, {},
                      std::make_unique<GrammarConstraint>(
                          parse("root ::= \"a\""), std::make_shared<const TokenIndex>(*endless)),
                      {});
  const auto decision = source.next(std::vector<float>(endless->size(), 0.0F), {});
  CHECK(endless->piece(decision.token, false) == "a");
  CHECK(decision.stop == StopReason::kStop);
}

TEST_CASE("a model with more logits than the vocabulary, or fewer") {
  const auto constraint = [] {
    return std::make_unique<GrammarConstraint>(parse("root ::= \"x\"+"), token_index());
  };
  AnswerSource wide(vocabulary(), {}, constraint(), {});
  std::vector<float> logits(vocabulary()->size() + 100, 0.0F);
  logits.back() = 50;
  CHECK(vocabulary()->piece(wide.next(logits, {}).token, false)[0] == 'x');
  AnswerSource narrow(vocabulary(), {}, constraint(), {});
  CHECK(narrow.next(std::vector<float>(10, 0.0F), {}).stop == StopReason::kStop);
}

TEST_CASE("a grammar that no token can begin is found out") {
  test::SmallVocabulary small;
  small.add("a", TokenKind::kNormal);
  const auto tokenizer = small.make("gpt-2");
  const auto index = std::make_shared<const TokenIndex>(*tokenizer);
  CHECK(GrammarConstraint(parse("root ::= \"b\""), index).nothing_allowed());
  CHECK_FALSE(GrammarConstraint(parse("root ::= \"ab\""), index).nothing_allowed());
}
