#include "io/swap_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "actors/units.h"
#include "io/io_error.h"
#include "io/page_cache.h"

namespace mzcache::io {
namespace {

constexpr std::uint64_t kZeroStepBytes = std::uint64_t{1} << 20;

int create_named(const std::string& directory, int flags) {
  std::string path = directory + "/.mzcache-swap-XXXXXX";
  // O_DIRECT only afterwards: some file systems create the name before they refuse the flag.
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return -errno;
  int failed = ::unlink(path.c_str()) != 0 ? errno : 0;
  if (failed == 0 && flags != 0 && ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | flags) != 0) {
    failed = errno;
  }
  if (failed == 0) return fd;
  ::close(fd);
  return -failed;
}

int create_unnamed(const std::string& directory, int flags, bool no_tmpfile) {
  if (!no_tmpfile) {
    // O_EXCL: nobody can give the file a name later.
    const int fd = ::open(directory.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd >= 0) return fd;
    // EISDIR is what kernels without O_TMPFILE say. EINVAL may mean O_DIRECT: asked again without.
    const int failed = errno;
    const bool lacks_tmpfile =
        failed == EOPNOTSUPP || failed == EISDIR || (failed == EINVAL && flags == 0);
    if (!lacks_tmpfile) return -failed;
  }
  return create_named(directory, flags);
}

}  // namespace

Result<void> check_swap_directory(const std::string& directory) {
  struct stat status{};
  int failed = ::stat(directory.c_str(), &status) == 0 ? 0 : errno;
  if (failed == 0 && !S_ISDIR(status.st_mode)) failed = ENOTDIR;
  if (failed == 0 && ::access(directory.c_str(), W_OK | X_OK) != 0) failed = errno;
  if (failed == 0) return {};
  Error error = io_error(failed, "memory.swap_directory", directory);
  error.hint = "name a folder that is there and can be written to";
  return error;
}

SwapFile::SwapFile(std::string directory, SwapOptions options)
    : directory_(std::move(directory)), options_(std::move(options)) {}

Result<void> SwapFile::create() {
  if (directory_.empty()) {
    return Error{ErrorCode::kBadArgument, 0, "create swap file", "no directory was configured"};
  }
  const auto opener = [this](int flags) {
    return create_unnamed(directory_, flags, options_.file.faults.no_tmpfile);
  };
  auto file = DirectFile::open_with(opener, name(), DirectFile::Probe::kWrite, options_.file);
  if (!file) return std::move(file).error();
  file_.emplace(std::move(file).value());
  published_.store(&*file_, std::memory_order_release);
  return {};
}

Result<void> SwapFile::grow(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes <= size()) return {};
  // Checked before a file is made: the end of the address range must not wrap below.
  if (bytes > std::uint64_t{1} << 60) return io_error(EFBIG, "grow", name());
  const std::uint64_t least = actors::align_up(bytes, actors::kBlockAlignment);
  if (options_.bytes_max != 0 && least > options_.bytes_max) {
    return Error{.code = ErrorCode::kNoSpace,
                 .native = 0,
                 .operation = "grow",
                 .context = fmt::format("{}: {} bytes asked for, the limit is {}", name(), least,
                                        options_.bytes_max),
                 .hint = "raise memory.swap_file_max"};
  }
  std::uint64_t wanted =
      actors::align_up(least, std::max(options_.extent_bytes, actors::kBlockAlignment));
  if (options_.bytes_max != 0) wanted = std::max(least, std::min(wanted, options_.bytes_max));

  if (!file_) {
    if (auto created = create(); !created) return created;
  }
  int failed = allocate(wanted);
  if (failed != 0 && wanted > least) failed = allocate(wanted = least);
  if (failed == 0) {
    size_.store(wanted, std::memory_order_release);
    return {};
  }
  // What was allocated of the failed part would only keep the disk full.
  (void)::ftruncate(file_->fd(), static_cast<off_t>(size()));
  return io_error(-failed, "grow", fmt::format("{} to {} bytes", name(), least));
}

Result<void> SwapFile::shrink(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t target = actors::align_up(bytes, actors::kBlockAlignment);
  if (target >= size()) return {};
  if (::ftruncate(file_->fd(), static_cast<off_t>(target)) != 0) {
    return io_error(errno, "shrink", name());
  }
  size_.store(target, std::memory_order_release);
  return {};
}

int SwapFile::room_for(std::uint64_t bytes) const {
  struct rlimit limit{};
  // Going over this limit raises a signal that ends the process.
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur) {
    return -EFBIG;
  }
  struct statvfs disk{};
  if (::fstatvfs(file_->fd(), &disk) != 0 || disk.f_blocks == 0) return 0;
  const std::uint64_t available = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  return bytes - size() > available ? -ENOSPC : 0;
}

int SwapFile::allocate(std::uint64_t bytes) const {
  if (const int failed = room_for(bytes); failed != 0) return failed;
  if (options_.file.faults.no_fallocate) return allocate_by_writing(bytes);
  const auto begin = static_cast<off_t>(size());
  int failed = 0;
  do {
    failed = ::fallocate(file_->fd(), 0, begin, static_cast<off_t>(bytes) - begin) == 0 ? 0 : errno;
  } while (failed == EINTR);
  if (failed == EOPNOTSUPP || failed == ENOSYS) return allocate_by_writing(bytes);
  return -failed;
}

int SwapFile::allocate_by_writing(std::uint64_t bytes) const {
  // A mapping that is only read costs no memory: every page is the zero page.
  void* zeros = ::mmap(nullptr, kZeroStepBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (zeros == MAP_FAILED) return -errno;
  int failed = 0;
  std::uint64_t offset = size();
  while (failed == 0 && offset < bytes) {
    const std::uint64_t step = std::min(kZeroStepBytes, bytes - offset);
    const ssize_t written = ::pwrite(file_->fd(), zeros, step, static_cast<off_t>(offset));
    if (written < 0) {
      if (errno != EINTR) failed = -errno;
      continue;
    }
    if (written == 0) {
      failed = -ENOSPC;
    } else if (!file_->direct()) {
      failed = write_back(file_->fd(), offset, static_cast<std::uint64_t>(written));
      drop_cached(file_->fd(), offset, static_cast<std::uint64_t>(written));
    }
    offset += static_cast<std::uint64_t>(written);
  }
  ::munmap(zeros, kZeroStepBytes);
  return failed;
}

}  // namespace mzcache::io
