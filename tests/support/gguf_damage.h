// The table of damaged GGUF files: each one change to a whole model, and the words its error must
// contain. Used by the parser's test, the allocation test and as seeds of the fuzzing test.
#pragma once

#include <string>
#include <vector>

namespace mzcache::test {

struct DamagedFile {
  std::string name;  // what was done
  std::string bytes;
  std::vector<std::string> says;  // all of these are in the error's message
  bool parses = false;            // the container is whole, the model is not
};

[[nodiscard]] std::vector<DamagedFile> damaged_files();

}  // namespace mzcache::test
