// Cutting text into the words that BPE merges within, by the regular expression a model names.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "mzcache/errors.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace mzcache::engine {

// Immutable after make(); any number of cursors may run over one splitter at once.
class Splitter {
 public:
  // `name` as in tokenizer.ggml.pre ("" is the default). kUnsupported lists the names there are.
  [[nodiscard]] static Result<Splitter> make(std::string_view name);

  // Words of one text in order; together they are the text. A run of bytes that are not UTF-8 is a
  // word of its own. For one thread; splitter and text must outlive it.
  class Cursor {
   public:
    Cursor(const Splitter& splitter, std::string_view text);
    // False at the end.
    [[nodiscard]] bool next(std::string_view& word);

   private:
    struct FreeMatch {
      void operator()(pcre2_real_match_data_8* match) const noexcept;
    };
    void start_run();
    [[nodiscard]] std::size_t match_end() const;

    const Splitter& splitter_;
    std::string_view text_;  // what follows the current run
    std::string_view run_;   // valid UTF-8, being matched
    std::size_t at_ = 0;     // in run_
    std::unique_ptr<pcre2_real_match_data_8, FreeMatch> match_;
  };

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const noexcept;
  };
  Splitter() = default;

  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
  bool compiled_ = false;  // to machine code
};

}  // namespace mzcache::engine
