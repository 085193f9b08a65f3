// Grammars for GenerateOptions::grammar, in GBNF: the form of BNF that llama.cpp has.
//
//   root   ::= "[" number ("," number)* "]"
//   number ::= "-"? [0-9]+           # line breaks are white space, comments go to the end of a
//   line
//
// An answer is a text that `root` describes. There are sequences, alternatives |, groups ( ),
// repetitions * + ? {n} {n,} {n,m}, "literals", classes [a-z] and [^a-z], any character . and the
// escapes \n \r \t \\ \" \[ \] \- \^ \xNN \uNNNN \UNNNNNNNN. A rule must not begin with itself.
#pragma once

#include <string_view>

#include "mzcache/errors.h"

namespace mzcache {

// Throws Exception (kBadArgument, with line and column, or the rule) unless it is a grammar. `name`
// goes before what is wrong: the file it came from.
void check_grammar(std::string_view text, std::string_view name = {});

// JSON of any kind: an object or array at the top, white space where it may be, a little of it.
[[nodiscard]] std::string_view json_grammar() noexcept;

}  // namespace mzcache
