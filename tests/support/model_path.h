// Where the real models are.
#pragma once

#include <cstdlib>
#include <string>

namespace mzcache::test {

// SmolLM2-135M-Instruct, Q4_1.
inline std::string model_path() {
  const char* path = std::getenv("MZCACHE_MODEL");  // NOLINT(concurrency-mt-unsafe)
  return path != nullptr && *path != '\0' ? path
                                          : MZCACHE_SOURCE_DIR
             "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

// Gemma 3 270M, Q4_K_M.
inline std::string gemma3_path() { return MZCACHE_SOURCE_DIR "/models/gemma-3-270m-q4_k_m.gguf"; }

}  // namespace mzcache::test
