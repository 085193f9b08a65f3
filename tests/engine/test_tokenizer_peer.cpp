// Ids of random texts over small vocabularies, as llama.cpp gives them (tests/golden/
// make_tokenizers.py).
#include <string>
#include <vector>

#include "tokenizer_fixture.h"
#include "tokenizer_vectors.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

nlohmann::json golden(const std::string& name) {
  return test::read_json(std::string(MZCACHE_SOURCE_DIR) + "/tests/golden/tokenizers/" + name);
}

std::shared_ptr<const Tokenizer> make(const Vocabulary& vocabulary) {
  auto made = make_tokenizer(vocabulary);
  if (!made) FAIL(made.error().message());
  return *made;
}

void check_cases(const Tokenizer& tokenizer, const nlohmann::json& cases) {
  REQUIRE(cases.size() > 100);
  const Tokenizer::Options plain{.parse_special = false, .add_bos = false};
  for (const auto& one : cases) {
    const auto text = one["text"].get<std::string>();
    const auto ids = one["ids"].get<std::vector<Token>>();
    INFO(text);
    CHECK(tokenizer.encode(text, plain) == ids);
    // U+2581 is a space to SentencePiece, and after a user-defined token it adds another.
    if (text.find("\u2581") != std::string::npos) continue;
    const bool defined = text.find("<tool>") != text.npos || text.find("  ") != text.npos;
    if (tokenizer.adds_space() && (defined || text.empty())) continue;
    CHECK(test::text_of(tokenizer, ids) == (tokenizer.adds_space() ? " " + text : text));
  }
}

}  // namespace

TEST_CASE("every splitter cuts as llama.cpp does") {
  const auto file = golden("splitters.json");
  const auto tokens = file["tokens"].get<std::vector<std::string>>();
  const auto merges = file["merges"].get<std::vector<std::string>>();
  Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.tokens = tokens;
  vocabulary.merges = merges;
  vocabulary.kinds = file["kinds"].get<std::vector<std::int64_t>>();
  REQUIRE(file["splitters"].size() == 6);
  for (const auto& [name, cases] : file["splitters"].items()) {
    INFO(name);
    vocabulary.splitter = name;
    check_cases(*make(vocabulary), cases);
  }
}

TEST_CASE("merging by scores gives what llama.cpp does") {
  const auto file = golden("scores.json");
  const auto tokens = file["tokens"].get<std::vector<std::string>>();
  Vocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.tokens = tokens;
  vocabulary.scores = file["scores"].get<std::vector<float>>();
  vocabulary.kinds = file["kinds"].get<std::vector<std::int64_t>>();
  vocabulary.unknown = 0;
  REQUIRE(file["prefix"].size() == 2);
  for (const auto& [prefix, cases] : file["prefix"].items()) {
    INFO(prefix);
    vocabulary.add_space_prefix = prefix == "true";
    check_cases(*make(vocabulary), cases);
  }
}
