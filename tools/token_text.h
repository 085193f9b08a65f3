// Tokens for people: pieces on one line, and how likely each token of an answer was.
#pragma once

#include <string>
#include <vector>

#include "mzcache/runtime.h"
#include "report_json.h"

namespace mzcache::tools {

// A piece as valid UTF-8 that can be turned back: a byte that is no part of a character in it is
// written <0xE2>, and so is the '<' of a piece that spells such an escape itself.
[[nodiscard]] std::string escaped_piece(const std::string& piece);
// The same, control characters by their escape: for people.
[[nodiscard]] std::string on_one_line(const std::string& piece);

// [{"token", "text", "logprob", "top": [{"token", "text", "logprob"}]}]
[[nodiscard]] Json to_json(const std::vector<TokenLogprob>& logprobs, const Model& model);
// A line for each token: its logprob, itself, and the likeliest with theirs.
[[nodiscard]] std::string logprob_lines(const std::vector<TokenLogprob>& logprobs,
                                        const Model& model);

}  // namespace mzcache::tools
