// Golden vectors: [{"text", "ids"}], without BOS, special tokens parsed.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/tokenizer.h"
#include "support/catch.h"

namespace mzcache::test {

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  INFO(path);
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

inline void check_vectors(const engine::Tokenizer& tokenizer, const std::string& path) {
  const auto vectors = read_json(path);
  REQUIRE(vectors.size() > 40);
  for (const auto& vector : vectors) {
    const auto text = vector["text"].get<std::string>();
    const auto ids = vector["ids"].get<std::vector<engine::Token>>();
    INFO(text);
    CHECK(tokenizer.encode(text, {.parse_special = true, .add_bos = false}) == ids);
    std::string back;
    std::string streamed;
    engine::IncrementalDetokenizer detokenizer(
        std::shared_ptr<const engine::Tokenizer>(std::shared_ptr<void>(), &tokenizer));
    for (const engine::Token id : ids) {
      back += tokenizer.piece(id, true);
      streamed += detokenizer.push(id);
    }
    streamed += detokenizer.finish();
    CHECK(back == text);
    CHECK(streamed == text);
  }
}

}  // namespace mzcache::test
