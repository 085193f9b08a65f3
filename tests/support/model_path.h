// Where the real model (SmolLM2-135M-Instruct, Q4_1) is.
#pragma once

#include <cstdlib>
#include <string>

namespace mzcache::test {

inline std::string model_path() {
  const char* path = std::getenv("MZCACHE_MODEL");  // NOLINT(concurrency-mt-unsafe)
  return path != nullptr && *path != '\0' ? path
                                          : MZCACHE_SOURCE_DIR
             "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

}  // namespace mzcache::test
