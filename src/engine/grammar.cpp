#include "engine/grammar.h"

#include "mzcache/grammar.h"

namespace mzcache {

void check_grammar(std::string_view text, std::string_view name) {
  auto parsed = engine::Grammar::parse(text);
  if (parsed) return;
  Error error = std::move(parsed).error();
  if (!name.empty()) error.context = std::string(name) + ": " + error.context;
  throw Exception(std::move(error));
}

std::string_view json_grammar() noexcept {
  // Numbers that a double holds, and no half of a surrogate pair: what readers of JSON accept.
  // White space is bounded, because a model that is unsure would go on with it for ever.
  return R"(root   ::= object | array
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( pair ( ws "," ws pair )* )? ws "}"
pair   ::= string ws ":" ws value
array  ::= "[" ws ( value ( ws "," ws value )* )? ws "]"
string ::= "\"" ( [^"\\\x00-\x1F\x7F] | "\\" ( ["\\/bfnrt] | "u" ( unit | pairs ) ) )* "\""
unit   ::= ( [0-9a-cA-CefEF] hex | [dD] [0-7] ) hex hex
pairs  ::= [dD] [89abAB] hex hex "\\u" [dD] [c-fC-F] hex hex
hex    ::= [0-9a-fA-F]
number ::= "-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." [0-9]{1,16} )? ( [eE] [-+]? [0-9]{1,2} )?
ws     ::= ( " " | "\n" [ \t]{0,20} )?
)";
}

}  // namespace mzcache
