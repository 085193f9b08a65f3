// Text for benchmarks that compute a context.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mzcache/reports.h"

namespace mzcache::tools {

// So many tokens of plain text whose sentences differ; the first tokens in turn where the
// vocabulary has no word of it, as test models' have not.
[[nodiscard]] std::vector<Token> some_text(
    const std::function<std::vector<Token>(const std::string&)>& tokenize, std::uint32_t tokens);

}  // namespace mzcache::tools
