// A file that appears under its name only when it is whole. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "mzcache/errors.h"

namespace mzcache::synth {

// Until commit() the bytes are in a file without a name where the file system can do that (nothing
// is left after a crash), else under a temporary name beside the target, removed by the destructor.
class OutputFile {
 public:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Room for `bytes` is allocated where the file system can: a full disk shows here.
  [[nodiscard]] Result<void> open(std::uint64_t bytes);
  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes);
  // Flushes to the device and gives the file its name, replacing an older one.
  [[nodiscard]] Result<void> commit();

 private:
  [[nodiscard]] Error failed(const char* operation, int number) const;

  std::string path_;
  std::string temporary_;  // empty: no name yet
  std::uint64_t wanted_bytes_ = 0;
  int fd_ = -1;
};

}  // namespace mzcache::synth
