#include "engine/tokenizer.h"

#include <cmath>
#include <utility>

#include "engine/bpe_tokenizer.h"
#include "engine/spm_tokenizer.h"
#include "engine/tokenizer_vocabulary.h"

namespace mzcache::engine {
namespace {

Error bad_vocabulary(const Vocabulary& vocabulary, const std::string& what) {
  return {ErrorCode::kBadFormat, 0, "tokenizer", vocabulary.file + ": " + what};
}

Result<void> check(const Vocabulary& vocabulary) {
  const std::size_t count = vocabulary.tokens.size();
  if (count == 0) return bad_vocabulary(vocabulary, "tokenizer.ggml.tokens is missing or empty");
  if (count > 0x7FFFFFFF) {
    return bad_vocabulary(vocabulary, "tokenizer.ggml.tokens has " + std::to_string(count) +
                                          " entries, limit 2147483647");
  }
  if (!vocabulary.kinds.empty() && vocabulary.kinds.size() != count) {
    return bad_vocabulary(
        vocabulary, "tokenizer.ggml.token_type has " + std::to_string(vocabulary.kinds.size()) +
                        " entries, tokenizer.ggml.tokens " + std::to_string(count));
  }
  for (const auto& [name, id] : {std::pair{"bos", vocabulary.bos}, std::pair{"eos", vocabulary.eos},
                                 std::pair{"eot", vocabulary.eot}, std::pair{"eom", vocabulary.eom},
                                 std::pair{"unknown", vocabulary.unknown}}) {
    if (id < -1 || id >= static_cast<std::int64_t>(count)) {
      return bad_vocabulary(
          vocabulary, "tokenizer.ggml." + std::string(name) + "_token_id = " + std::to_string(id) +
                          ", the vocabulary has " + std::to_string(count) + " tokens");
    }
  }
  std::size_t bytes = 0;
  for (const std::string& token : vocabulary.tokens) bytes += token.size();
  if (bytes > 0xFFFFFFFF) {
    return bad_vocabulary(vocabulary, "tokenizer.ggml.tokens has " + std::to_string(bytes) +
                                          " bytes of text, limit 4294967295");
  }
  for (std::size_t i = 0; i < vocabulary.kinds.size(); ++i) {
    if (vocabulary.kinds[i] >= 0 && vocabulary.kinds[i] <= 6) continue;
    return bad_vocabulary(vocabulary, "tokenizer.ggml.token_type[" + std::to_string(i) + "] = " +
                                          std::to_string(vocabulary.kinds[i]) + ", limit 6");
  }
  return {};
}

Result<void> check_scores(const Vocabulary& vocabulary) {
  if (vocabulary.scores.size() != vocabulary.tokens.size()) {
    return bad_vocabulary(vocabulary, "tokenizer.ggml.scores has " +
                                          std::to_string(vocabulary.scores.size()) +
                                          " entries, tokenizer.ggml.tokens " +
                                          std::to_string(vocabulary.tokens.size()));
  }
  for (std::size_t i = 0; i < vocabulary.scores.size(); ++i) {
    if (!std::isnan(vocabulary.scores[i])) continue;
    return bad_vocabulary(vocabulary,
                          "tokenizer.ggml.scores[" + std::to_string(i) + "] is not a number");
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_tokenizer(const Vocabulary& vocabulary) {
  if (vocabulary.model != "gpt2" && vocabulary.model != "llama") {
    return Error{ErrorCode::kUnsupported, 0, "tokenizer",
                 vocabulary.file + ": tokenizer.ggml.model = " +
                     (vocabulary.model.empty() ? "(missing)" : vocabulary.model) +
                     "; supported: gpt2 (byte-level BPE), llama (SentencePiece)"};
  }
  if (auto checked = check(vocabulary); !checked) return std::move(checked).error();
  if (vocabulary.model == "llama") {
    if (auto checked = check_scores(vocabulary); !checked) return std::move(checked).error();
    return std::shared_ptr<const Tokenizer>(std::make_shared<const SpmTokenizer>(vocabulary));
  }
  auto splitter = Splitter::make(vocabulary.splitter);
  if (!splitter) {
    Error error = std::move(splitter).error();
    error.context = vocabulary.file + ": " + error.context;
    return error;
  }
  return std::shared_ptr<const Tokenizer>(
      std::make_shared<const BpeTokenizer>(vocabulary, std::move(*splitter)));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const GgufFile& file) {
  auto vocabulary = read_vocabulary(file);
  if (!vocabulary) return std::move(vocabulary).error();
  return make_tokenizer(*vocabulary);
}

}  // namespace mzcache::engine
