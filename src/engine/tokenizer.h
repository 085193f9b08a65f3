// Text to token ids and back: byte-level BPE with the splitter the model names, or SentencePiece's
// merging by scores.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf.h"
#include "mzcache/errors.h"

namespace mzcache::engine {

using Token = std::int32_t;

class Tokenizer {
 public:
  struct Options {
    bool parse_special = true;  // text that spells a special token becomes that token
    bool add_bos = true;        // where the model's metadata asks for it
    bool add_eos = false;       // at the end, where the model's metadata asks for it
    bool starts = true;         // the text is at the start, or after a special token: where
                                // vocabularies of words put a space before it
    // Special tokens whose spelling stays text whatever parse_special says; valid for the call.
    std::span<const Token> as_text = {};
  };

  // kUnsupported lists the tokenizer models and splitters there are. A merge list that names
  // unknown tokens is accepted (such merges never apply).
  [[nodiscard]] static Result<std::shared_ptr<const Tokenizer>> load(const GgufFile& file);
  virtual ~Tokenizer() = default;

  // Thread-safe. Text need not be valid UTF-8: every byte has a token in byte-level vocabularies
  // and in those with byte fallback.
  [[nodiscard]] virtual std::vector<Token> encode(std::string_view text, Options options) const = 0;
  // The bytes a token stands for; empty for control tokens unless `special`.
  [[nodiscard]] virtual std::string piece(Token token, bool special) const = 0;
  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  [[nodiscard]] virtual Token bos() const noexcept = 0;  // -1 where the model has none
  [[nodiscard]] virtual Token eos() const noexcept = 0;
  // The model's metadata asks for BOS, and there is one.
  [[nodiscard]] virtual bool adds_bos() const noexcept = 0;
  // A space is put before a text that starts: decoding takes it away again.
  [[nodiscard]] virtual bool adds_space() const noexcept { return false; }
  // True for EOS and every end-of-turn token of the model.
  [[nodiscard]] virtual bool ends_generation(Token token) const noexcept = 0;
  // The id of exactly this special token, or -1.
  [[nodiscard]] virtual Token special(std::string_view text) const noexcept = 0;
};

// Ids to text, a token at a time, never half a UTF-8 character.
class IncrementalDetokenizer {
 public:
  explicit IncrementalDetokenizer(std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}
  // The text that became complete with this token ("" until a character is whole). A byte that
  // cannot be part of UTF-8 comes out as U+FFFD.
  [[nodiscard]] std::string push(Token token);
  // What is left at the end (an unfinished character becomes U+FFFD).
  [[nodiscard]] std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string pending_;
};

}  // namespace mzcache::engine
