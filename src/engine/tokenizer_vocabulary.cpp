#include "engine/tokenizer_vocabulary.h"

#include <utility>

namespace mzcache::engine {
namespace {

// The id under `key`, -1 where the key is missing.
Result<std::int64_t> read_id(const GgufFile& file, std::string_view key) {
  auto read = file.integer(key);
  if (!read) return std::move(read).error();
  const std::optional<std::uint64_t> id = *read;
  if (!id.has_value()) return std::int64_t{-1};
  if (*id > 0x7FFFFFFFULL) {
    return Error{
        ErrorCode::kBadFormat, 0, "tokenizer",
        file.path() + ": " + std::string(key) + " = " + std::to_string(*id) + ", limit 2147483647"};
  }
  return static_cast<std::int64_t>(*id);
}

Result<std::string> read_text(const GgufFile& file, std::string_view key) {
  auto text = file.text(key);
  if (!text) return std::move(text).error();
  return std::move(*text).value_or("");
}

}  // namespace

Result<Vocabulary> read_vocabulary(const GgufFile& file) {
  Vocabulary vocabulary;
  vocabulary.file = file.path();
  for (const auto& [key, field] : {std::pair{"tokenizer.ggml.model", &Vocabulary::model},
                                   std::pair{"tokenizer.ggml.pre", &Vocabulary::splitter}}) {
    auto text = read_text(file, key);
    if (!text) return std::move(text).error();
    vocabulary.*field = std::move(*text);
  }
  for (const auto& [key, field] : {std::pair{"tokenizer.ggml.tokens", &Vocabulary::tokens},
                                   std::pair{"tokenizer.ggml.merges", &Vocabulary::merges}}) {
    auto texts = file.texts(key);
    if (!texts) return std::move(texts).error();
    if (*texts != nullptr) vocabulary.*field = **texts;
  }
  for (const auto& [key, field] :
       {std::pair{"tokenizer.ggml.bos_token_id", &Vocabulary::bos},
        std::pair{"tokenizer.ggml.eos_token_id", &Vocabulary::eos},
        std::pair{"tokenizer.ggml.eot_token_id", &Vocabulary::eot},
        std::pair{"tokenizer.ggml.eom_token_id", &Vocabulary::eom},
        std::pair{"tokenizer.ggml.unknown_token_id", &Vocabulary::unknown}}) {
    auto id = read_id(file, key);
    if (!id) return std::move(id).error();
    vocabulary.*field = *id;
  }
  auto kinds = file.integers("tokenizer.ggml.token_type");
  if (!kinds) return std::move(kinds).error();
  vocabulary.kinds = std::move(*kinds);
  auto scores = file.numbers("tokenizer.ggml.scores");
  if (!scores) return std::move(scores).error();
  vocabulary.scores.assign(scores->begin(), scores->end());
  for (const auto& [key, field] :
       {std::pair{"tokenizer.ggml.add_bos_token", &Vocabulary::add_bos},
        std::pair{"tokenizer.ggml.add_eos_token", &Vocabulary::add_eos},
        std::pair{"tokenizer.ggml.add_space_prefix", &Vocabulary::add_space_prefix}}) {
    auto flag = file.boolean(key);
    if (!flag) return std::move(flag).error();
    vocabulary.*field = *flag;
  }
  return vocabulary;
}

}  // namespace mzcache::engine
