#include "commands/bench_text.h"

#include <fmt/format.h>

namespace mzcache::tools {

std::vector<Token> some_text(const std::function<std::vector<Token>(const std::string&)>& tokenize,
                             std::uint32_t tokens) {
  std::string text;
  for (std::uint32_t line = 1; text.size() < std::size_t{tokens} * 8; ++line) {
    text += fmt::format(
        "{}. On day {} of the voyage the wind came from the south at {} knots, the crew of {} "
        "mended two sails, and the cook counted {} loaves of bread.\n",
        line, line * 3, line * 7 % 41, line * 5 % 23 + 9, line * 13 % 97);
  }
  std::vector<Token> all = tokenize(text);
  if (all.empty()) all = {0, 1, 2, 3};
  const std::size_t length = all.size();  // short where tokens are long: the text begins again
  while (all.size() < tokens) all.push_back(all[all.size() % length]);
  all.resize(tokens);
  return all;
}

}  // namespace mzcache::tools
