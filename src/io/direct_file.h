// Files opened for direct I/O, with the page cache as a second choice where direct I/O is refused.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "io/unique_fd.h"
#include "mzcache/errors.h"

namespace mzcache::io {

// Where lines for people go: something works, but not as asked. May be called from any thread.
using Notice = std::function<void(std::string)>;

// Faults that tests inject where no file system or kernel at hand has them.
struct IoFaults {
  bool direct_refused_at_open = false;   // open(O_DIRECT) fails with EINVAL
  bool direct_refused_at_first = false;  // the first direct transfer fails with EINVAL
  bool no_tmpfile = false;               // O_TMPFILE is not supported
  bool no_fallocate = false;             // fallocate is not supported
  int ring_error = 0;                    // io_uring_setup fails with this errno
};

struct DirectOptions {
  bool direct = true;  // false: buffered by wish, without a notice
  Notice notice;
  IoFaults faults;
};

// Enough of a file to know it again.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
// kNotFound, or kIo where it may not be looked at.
[[nodiscard]] Result<FileIdentity> identify_file(const std::string& path);

// An open file whose transfers are direct where the file system allows it. Whether it does is
// settled at opening, by one block of probing, so that no later transfer meets the refusal.
// Immutable after opening: thread-safe.
class DirectFile {
 public:
  // The opener gets O_DIRECT or 0 to add to its flags; returns a descriptor or a negative errno.
  using Opener = std::function<int(int flags)>;
  enum class Probe { kRead, kWrite };  // kWrite writes zeros to the first block

  // `name` is what errors and notices call the file.
  [[nodiscard]] static Result<DirectFile> open_with(const Opener& opener, std::string name,
                                                    Probe probe, const DirectOptions& options);
  // An existing regular file or block device, for reading.
  [[nodiscard]] static Result<DirectFile> open(const std::string& path,
                                               const DirectOptions& options);

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] bool direct() const noexcept { return direct_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const FileIdentity& identity() const noexcept { return identity_; }

 private:
  DirectFile(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

  UniqueFd fd_;
  std::string name_;
  FileIdentity identity_;
  bool direct_ = false;
};

}  // namespace mzcache::io
