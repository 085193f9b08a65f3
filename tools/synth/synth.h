// Synthetic models: GGUF files of real shapes with seeded random weights and a working byte-level
// tokenizer. For measuring and testing without downloads; what such a model says means nothing.
#pragma once

#include <cstdint>
#include <string>

#include "mzcache/errors.h"

namespace mzcache::synth {

struct SynthOptions {
  std::string arch;  // "qwen3-0.6b"; see architecture_names()
  std::string type;  // "f16"; see type_names()
  std::string path;  // written anew; a file already there is replaced at the end
  std::uint64_t seed = 1;
};

// The same options give the same bytes. kBadArgument lists what there is; kNoSpace names the bytes
// needed. On failure nothing is left behind, and an older file at `path` is untouched.
[[nodiscard]] Result<void> synthesize(const SynthOptions& options);

// What synthesize() would write: everything before the data section, and the whole file's size.
struct SynthHeader {
  std::string bytes;
  std::uint64_t file_bytes = 0;
};
[[nodiscard]] Result<SynthHeader> synth_header(const SynthOptions& options);

// Names allowed in SynthOptions, separated by spaces.
[[nodiscard]] std::string architecture_names();
[[nodiscard]] std::string type_names();

}  // namespace mzcache::synth
