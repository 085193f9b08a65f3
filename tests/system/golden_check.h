// One golden model through the whole system.
#pragma once

#include <string>

namespace mzcache::test {

// Logits of `directory`/models/`name`.gguf for its prompt at batch sizes 1, 7, 256 and 512, each in
// a conversation of its own, against the expected ones.
void check_golden_model(const std::string& directory, const std::string& name);
// The same prompt in parts with evictions between them (codec "none"): the bits of the same parts
// without evictions, and the expected logits.
void check_golden_evictions(const std::string& directory, const std::string& name);

}  // namespace mzcache::test
