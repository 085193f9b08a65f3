// What a tokenizer is made from, and reading it out of a GGUF file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/gguf.h"
#include "engine/tokenizer.h"
#include "mzcache/errors.h"

namespace mzcache::engine {

// Values of tokenizer.ggml.token_type.
enum class TokenKind : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// The keys of tokenizer.ggml.*. The spans view the file's metadata.
struct Vocabulary {
  std::string file;      // for errors
  std::string model;     // "gpt2": byte-level BPE, "llama": SentencePiece
  std::string splitter;  // tokenizer.ggml.pre
  std::span<const std::string> tokens;
  std::span<const std::string> merges;  // "left right"
  std::vector<std::int64_t> kinds;      // TokenKind; empty: all normal
  std::vector<float> scores;            // "llama" only; the highest merges first
  // Ids, -1 where the file names none. That and nullopt mean the default of the model's format.
  std::int64_t bos = -1;
  std::int64_t eos = -1;
  std::int64_t eot = -1;
  std::int64_t eom = -1;
  std::int64_t unknown = -1;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
};

// The result views `file`.
[[nodiscard]] Result<Vocabulary> read_vocabulary(const GgufFile& file);
// The tokenizer keeps nothing of what the vocabulary views. Errors as Tokenizer::load.
[[nodiscard]] Result<std::shared_ptr<const Tokenizer>> make_tokenizer(const Vocabulary& vocabulary);

}  // namespace mzcache::engine
