// A model file's tokenizer alone: no device, no weights. Works on files that hold nothing else.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mzcache/errors.h"
#include "mzcache/reports.h"

namespace mzcache {

struct TokenizeOptions {
  bool parse_special = true;  // text that spells a special token becomes it
  bool add_bos = true;        // where the model asks for it
  bool add_eos = true;        // at the end, where the model asks for it
};

// A handle; copies share the tokenizer. Thread-safe.
class Vocabulary {
 public:
  // Reads the metadata only. Throws Exception (which file, field, limit; which splitters there
  // are).
  [[nodiscard]] static Vocabulary load(const std::string& file);

  [[nodiscard]] std::vector<Token> tokenize(std::string_view text,
                                            const TokenizeOptions& options = {}) const;
  // The bytes the token stands for; special tokens by name. Throws where there is no such token.
  [[nodiscard]] std::string piece(Token token) const;
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  struct Impl;
  explicit Vocabulary(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace mzcache
