// Whole conversations as Jinja2 renders them (tests/golden/make_chat.py), against the same put
// together turn by turn.
#include <string>
#include <vector>

#include "engine/chat_template.h"
#include "tokenizer_fixture.h"
#include "tokenizer_vectors.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

std::shared_ptr<const Tokenizer> vocabulary() {
  static const auto kMade = [] {
    test::SmallVocabulary small = test::small_vocabulary();
    small.vocabulary.bos = small.add("<s>", TokenKind::kControl);
    small.vocabulary.eos = small.add("</s>", TokenKind::kControl);
    for (const char* control :
         {"<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
          "<start_of_turn>", "<end_of_turn>", "[|system|]", "[|user|]", "[|assistant|]",
          "[|endofturn|]", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}) {
      small.add(control, TokenKind::kControl);
    }
    small.add("<think>", TokenKind::kUserDefined);
    small.add("</think>", TokenKind::kUserDefined);
    return small.make("qwen2");
  }();
  return kMade;
}

Thinking thinking_of(const std::string& name) {
  if (name == "default") return Thinking::kDefault;
  return name == "on" ? Thinking::kOn : Thinking::kOff;
}

Token end_of_answer(const std::string& family) {
  if (family == "llama3") return vocabulary()->special("<|eot_id|>");
  if (family == "gemma") return vocabulary()->special("<end_of_turn>");
  if (family == "exaone4") return vocabulary()->special("[|endofturn|]");
  return vocabulary()->special(family == "llama2" || family == "mistral" ? "</s>" : "<|im_end|>");
}

// What was said stays in the context as it was computed. Some templates write earlier answers
// without the (empty) thoughts that opened them: here they are put back.
std::string with_openings_kept(std::string prompt, const nlohmann::json& one) {
  constexpr std::string_view kAnswer = "<|im_start|>assistant\n";
  if (one["family"] != "chatml") return prompt;
  const std::string opening = prompt.substr(prompt.rfind(kAnswer) + kAnswer.size());
  std::size_t at = 0;
  for (const auto& answer : one["answers"]) {
    const std::string before = std::string(kAnswer) + answer.get<std::string>();
    at = prompt.find(before, at);
    REQUIRE(at != prompt.npos);
    prompt.insert(at + kAnswer.size(), opening);
    at += before.size();
  }
  return prompt;
}

void append(std::vector<Token>& tokens, const std::vector<Token>& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

// `closes`: the model ended its answers itself.
std::vector<Token> conversation(const ChatTemplate& chat, const nlohmann::json& one, bool closes) {
  const auto users = one["users"].get<std::vector<std::string>>();
  const auto answers = one["answers"].get<std::vector<std::string>>();
  const auto system = one["system"].get<std::string>();
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < users.size(); ++i) {
    append(tokens, chat.user_turn(*vocabulary(), {users[i], system, i == 0, closes && i > 0}));
    if (i == answers.size()) break;
    // A model that was made to think ends its thoughts first; here it has none.
    const bool thinks = one["family"] == "exaone4" && one["thinking"] == "on";
    append(tokens, vocabulary()->encode((thinks ? "\n</think>\n\n" : "") + answers[i], {}));
    if (closes) tokens.push_back(end_of_answer(one["family"]));
  }
  return tokens;
}

}  // namespace

TEST_CASE("conversations are what the templates' own language makes of them") {
  const auto cases = test::read_json(MZCACHE_SOURCE_DIR "/tests/golden/tokenizers/chat.json");
  REQUIRE(cases.size() > 60);
  for (const auto& one : cases) {
    const auto text = one["template"].get<std::string>();
    const auto prompt = with_openings_kept(one["prompt"], one);
    INFO(text << "\n\n" << one["family"] << " thinking " << one["thinking"]);
    const auto chosen = choose_chat_template(
        *vocabulary(), {text, "", thinking_of(one["thinking"]),
                        std::chrono::year_month_day{std::chrono::year(2026), std::chrono::March,
                                                    std::chrono::day(7)}});
    REQUIRE(chosen.ok());
    CHECK((*chosen)->name() == one["family"].get<std::string>());
    for (const bool closes : {true, false}) {
      const auto tokens = conversation(**chosen, one, closes);
      CHECK(test::text_of(*vocabulary(), tokens) == prompt);
      CHECK(tokens == vocabulary()->encode(prompt, {}));
    }
  }
}
