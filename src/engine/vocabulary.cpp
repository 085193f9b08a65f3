#include "mzcache/vocabulary.h"

#include "engine/gguf.h"
#include "engine/tokenizer.h"

namespace mzcache {

struct Vocabulary::Impl {
  std::shared_ptr<const engine::Tokenizer> tokenizer;
};

Vocabulary Vocabulary::load(const std::string& file) {
  const auto gguf = value_or_throw(engine::GgufFile::open(file));
  auto impl = std::make_shared<Impl>();
  impl->tokenizer = value_or_throw(engine::Tokenizer::load(gguf));
  return Vocabulary(std::move(impl));
}

std::vector<Token> Vocabulary::tokenize(std::string_view text,
                                        const TokenizeOptions& options) const {
  return impl_->tokenizer->encode(text, {options.parse_special, options.add_bos, options.add_eos});
}

std::string Vocabulary::piece(Token token) const {
  if (token < 0 || static_cast<std::size_t>(token) >= impl_->tokenizer->size()) {
    throw Exception(Error{ErrorCode::kBadArgument, 0, "token " + std::to_string(token),
                          "the vocabulary has " + std::to_string(impl_->tokenizer->size())});
  }
  return impl_->tokenizer->piece(token, true);
}

std::size_t Vocabulary::size() const noexcept { return impl_->tokenizer->size(); }

}  // namespace mzcache
