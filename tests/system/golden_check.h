// One golden model through the whole system.
#pragma once

#include <string>

namespace mzcache::test {

// Logits of `directory`/models/`name`.gguf for its prompt at batch sizes 1, 7, 256 and 512, each in
// a conversation of its own, against the expected ones.
void check_golden_model(const std::string& directory, const std::string& name);

}  // namespace mzcache::test
