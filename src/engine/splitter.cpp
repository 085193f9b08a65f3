#include "engine/splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>

#include "engine/tokenizer_utf8.h"

namespace mzcache::engine {
namespace {

// Unicode's White_Space, inside a class. PCRE2's own \s has U+180E besides, which the tokenizers'
// regular expressions do not.
#define MZ_SPACE "\\t-\\r\\x{85}\\p{Z}"
// Every alternative consumes what it scanned, or scans a run of white space that a later
// alternative then consumes, so a whole text is split in linear time.
#define MZ_SPACES "[" MZ_SPACE "]+(?![^" MZ_SPACE "])|[" MZ_SPACE "]+"

constexpr std::string_view kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" MZ_SPACE "\\p{L}\\p{N}]+|" MZ_SPACES;

// Digits are cut out first, one by one, and GPT-2's expression splits what is between them: so a
// digit ends a run of white space as the end of the text does.
constexpr std::string_view kSmollm = "\\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?[^" MZ_SPACE
                                     "\\p{L}\\p{N}]+|"
                                     "[" MZ_SPACE "]+(?![^" MZ_SPACE "\\p{N}])|[" MZ_SPACE "]+";

// Where a file names none. llama.cpp applies four expressions one after the other, each to what the
// last one left whole: punctuation, GPT-2's, numbers without the space before them, and three
// digits at a time. Here they are one; a piece that one of them cut off ends white space as the end
// of the text does.
#define MZ_PUNCTUATION "\\p{P}$+<=>^~|"
constexpr std::string_view kDefault =
    "[" MZ_PUNCTUATION "]+|[0-9]{3}|(?:(?![0-9]{3})\\p{N})+| ?\\p{L}+| (?=\\p{N})| ?[^" MZ_SPACE
    "\\p{L}\\p{N}" MZ_PUNCTUATION "]+|[" MZ_SPACE "]+(?![^" MZ_SPACE MZ_PUNCTUATION "])|[" MZ_SPACE
    "]+";

#define MZ_TIKTOKEN(number)                                                             \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" number "| ?[^" MZ_SPACE \
  "\\p{L}\\p{N}]+[\\r\\n]*|[" MZ_SPACE "]*[\\r\\n]+|" MZ_SPACES

constexpr std::string_view kLlama3 = MZ_TIKTOKEN("\\p{N}{1,3}");
constexpr std::string_view kQwen2 = MZ_TIKTOKEN("\\p{N}");

#undef MZ_TIKTOKEN
#undef MZ_PUNCTUATION
#undef MZ_SPACES
#undef MZ_SPACE

struct Named {
  std::string_view name;
  std::string_view pattern;
};

constexpr std::array kPatterns = {
    Named{"smollm", kSmollm}, Named{"gpt-2", kGpt2},      Named{"llama-bpe", kLlama3},
    Named{"qwen2", kQwen2},   Named{"exaone4", kGpt2},    Named{"default", kDefault},
    Named{"llama3", kLlama3}, Named{"llama-v3", kLlama3},
};

std::string names() {
  std::string list;
  for (const Named& named : kPatterns) {
    list += list.empty() ? "" : ", ";
    list += named.name;
  }
  return list;
}

}  // namespace

void Splitter::FreeCode::operator()(pcre2_code* code) const noexcept { pcre2_code_free(code); }

Result<Splitter> Splitter::make(std::string_view name) {
  if (name.empty()) name = "default";
  for (const Named& named : kPatterns) {
    if (named.name != name) continue;
    int error = 0;
    PCRE2_SIZE offset = 0;
    Splitter splitter;
    splitter.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(named.pattern.data()),
                                       named.pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED,
                                       &error, &offset, nullptr));
    if (splitter.code_ == nullptr) {
      return Error{ErrorCode::kInternal, 0, "compile splitter",
                   std::string(name) + ": PCRE2 error " + std::to_string(error)};
    }
    // Where machine code may not be made the interpreter gives the same words, slower.
    splitter.compiled_ = pcre2_jit_compile(splitter.code_.get(), PCRE2_JIT_COMPLETE) == 0;
    return splitter;
  }
  return Error{ErrorCode::kUnsupported, 0, "tokenizer",
               "tokenizer.ggml.pre = " + std::string(name) + "; supported: " + names()};
}

void Splitter::Cursor::FreeMatch::operator()(pcre2_match_data* match) const noexcept {
  pcre2_match_data_free(match);
}

Splitter::Cursor::Cursor(const Splitter& splitter, std::string_view text)
    : splitter_(splitter), text_(text), match_(pcre2_match_data_create(1, nullptr)) {
  if (match_ == nullptr) throw std::bad_alloc();
}

void Splitter::Cursor::start_run() {
  const std::size_t valid = utf8_valid_prefix(text_);
  run_ = text_.substr(0, valid);
  text_.remove_prefix(valid);
  at_ = 0;
}

std::size_t Splitter::Cursor::match_end() const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(run_.data());
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (splitter_.compiled_) {
    found = pcre2_jit_match(splitter_.code_.get(), subject, run_.size(), at_, PCRE2_NO_UTF_CHECK,
                            match_.get(), nullptr);
  }
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    found = pcre2_match(splitter_.code_.get(), subject, run_.size(), at_,
                        PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match_.get(), nullptr);
  }
  const std::size_t end = found < 0 ? at_ : pcre2_get_ovector_pointer(match_.get())[1];
  // The patterns match any character; should the engine give up, the character is a word.
  return end > at_ ? end : at_ + utf8_step(run_.substr(at_)).bytes;
}

bool Splitter::Cursor::next(std::string_view& word) {
  if (at_ == run_.size()) {
    if (text_.empty()) return false;
    start_run();
  }
  if (run_.empty()) {  // text_ begins with bytes that are no character
    std::size_t invalid = 0;
    while (invalid < text_.size()) {
      const Utf8Step step = utf8_step(text_.substr(invalid));
      if (step.state == Utf8State::kWhole) break;
      invalid += step.bytes;
    }
    word = text_.substr(0, invalid);
    text_.remove_prefix(invalid);
    return true;
  }
  const std::size_t end = match_end();
  word = run_.substr(at_, end - at_);
  at_ = end;
  return true;
}

}  // namespace mzcache::engine
