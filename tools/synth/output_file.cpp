#include "synth/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace mzcache::synth {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Error OutputFile::failed(const char* operation, int number) const {
  if (number == ENOSPC || number == EDQUOT || number == EFBIG) {
    return {.code = ErrorCode::kNoSpace,
            .native = number,
            .operation = operation,
            .context = path_ + " needs " + std::to_string(wanted_bytes_) + " bytes",
            .hint = "free some of the disk or choose another place"};
  }
  return {.code = number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
          .native = number,
          .operation = operation,
          .context = path_,
          .hint = "choose a file in a folder that is there and can be written to"};
}

Result<void> OutputFile::open(std::uint64_t bytes) {
  wanted_bytes_ = bytes;
  struct stat status{};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kBadArgument, 0, "write model", path_ + " is not a regular file"};
  }
  fd_ = ::open(folder_of(path_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    const std::string name = path_ + ".partial-" + std::to_string(::getpid());
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0) return failed("write model", errno);
    temporary_ = name;
  }
  if (::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) {
    return failed("write model", errno);
  }
  return {};
}

Result<void> OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed("write model", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return {};
}

Result<void> OutputFile::commit() {
  if (::fdatasync(fd_) != 0) return failed("write model", errno);
  // Whoever measures with this file next wants the disk, not the page cache.
  (void)::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  if (temporary_.empty()) {
    const std::string name = path_ + ".partial-" + std::to_string(::getpid());
    const std::string self = "/proc/self/fd/" + std::to_string(fd_);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return failed("write model", errno);
    }
    temporary_ = name;
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failed("write model", errno);
  temporary_.clear();
  return {};
}

}  // namespace mzcache::synth
