// A real model against an independent implementation: token ids, logits after the prompt, and the
// greedy continuation fed token by token.
#pragma once

#include <cstddef>
#include <string>

namespace mzcache::test {

// The expectations are real/`expectations`.json of MZCACHE_GOLDEN. Returns the tokens of the
// longest prompt.
std::size_t check_real_model(const std::string& model, const std::string& expectations);

}  // namespace mzcache::test
