// What parts of an eviction take alone: its encoding in one loop on one thread, its writing as
// large direct writes. Each call does the work once and says how long it took.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mzcache/config.h"

namespace mzcache::tools {

// One thread that encodes chunks one after another, as a compressor does (checksum included), from
// populated memory into populated memory. Throws Exception. Not thread-safe.
class EncodingAlone {
 public:
  EncodingAlone(const std::string& codec, const std::string& model_file);
  ~EncodingAlone();
  EncodingAlone(const EncodingAlone&) = delete;
  EncodingAlone& operator=(const EncodingAlone&) = delete;

  // raw_bytes: of the chunks, as they lie in shared buffers.
  [[nodiscard]] double run_ms(std::uint64_t raw_bytes);

 private:
  class State;
  std::unique_ptr<State> state_;
};

// Direct writes of storage.block at storage.depth to a file like the swap file, in its directory.
// The disk's room is allocated before the clock starts. Throws Exception. Not thread-safe.
class WritingAlone {
 public:
  explicit WritingAlone(const Config& config);
  ~WritingAlone();
  WritingAlone(const WritingAlone&) = delete;
  WritingAlone& operator=(const WritingAlone&) = delete;

  [[nodiscard]] double run_ms(std::uint64_t bytes);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace mzcache::tools
