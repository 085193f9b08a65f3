#include "io/direct_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "actors/units.h"
#include "io/io_error.h"
#include "io/page_cache.h"

namespace mzcache::io {
namespace {

using actors::kBlockAlignment;

bool is_refusal(int result) { return result == -EINVAL || result == -EOPNOTSUPP; }

// False where the file system says that O_DIRECT would be buffered after all (encrypted or
// journalled data) or needs more than our alignment. True where it says nothing.
bool alignment_suits(int fd) {
#ifdef STATX_DIOALIGN
  struct statx details{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &details) != 0) return true;
  if ((details.stx_mask & STATX_DIOALIGN) == 0) return true;
  const auto suits = [](std::uint32_t alignment) {
    return alignment != 0 && kBlockAlignment % alignment == 0;
  };
  return suits(details.stx_dio_mem_align) && suits(details.stx_dio_offset_align);
#else
  (void)fd;
  return true;
#endif
}

// One block, so that a refusal shows now. Other failures show again at the first real transfer.
Result<bool> transfer_works(int fd, const std::string& name, DirectFile::Probe probe) {
  const std::unique_ptr<void, decltype(&std::free)> block(
      std::aligned_alloc(kBlockAlignment, kBlockAlignment), &std::free);
  if (block == nullptr) return io_error(ENOMEM, "open", name);
  ssize_t moved = 0;
  do {
    if (probe == DirectFile::Probe::kRead) {
      moved = ::pread(fd, block.get(), kBlockAlignment, 0);
    } else {
      std::memset(block.get(), 0, kBlockAlignment);
      moved = ::pwrite(fd, block.get(), kBlockAlignment, 0);
    }
  } while (moved < 0 && errno == EINTR);
  if (moved >= 0) return true;
  if (is_refusal(-errno)) return false;
  if (probe == DirectFile::Probe::kWrite) return io_error(errno, "write", name);
  return true;
}

FileIdentity identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace

Result<FileIdentity> identify_file(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return io_error(errno, "open", path);
  return identity_of(status);
}

Result<DirectFile> DirectFile::open_with(const Opener& opener, std::string name, Probe probe,
                                         const DirectOptions& options) {
  int fd = -EINVAL;
  if (options.direct && !options.faults.direct_refused_at_open) fd = opener(O_DIRECT);
  bool direct = fd >= 0;
  if (!direct && (!options.direct || is_refusal(fd))) fd = opener(0);
  if (fd < 0) return io_error(-fd, "open", std::move(name));
  DirectFile file{UniqueFd(fd), std::move(name)};

  if (direct) {
    direct = alignment_suits(fd) && !options.faults.direct_refused_at_first;
    if (direct) {
      auto works = transfer_works(fd, file.name_, probe);
      if (!works) return std::move(works).error();
      direct = *works;
    }
    if (!direct && ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_DIRECT) != 0) {
      return io_error(errno, "open", file.name_);
    }
  }
  file.direct_ = direct;
  if (!direct) disable_readahead(fd);
  if (options.direct && !direct && options.notice) {
    options.notice(fmt::format(
        "{}: the file system refuses direct I/O; going through the page cache and emptying it",
        file.name_));
  }
  struct stat status{};
  if (::fstat(fd, &status) != 0) return io_error(errno, "open", file.name_);
  file.identity_ = identity_of(status);
  return file;
}

Result<DirectFile> DirectFile::open(const std::string& path, const DirectOptions& options) {
  const auto opener = [&path](int flags) {
    // Without O_NONBLOCK opening a named pipe would hang; for files it has no meaning.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (fd < 0) return -errno;
    struct stat status{};
    (void)::fstat(fd, &status);
    if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
      ::close(fd);
      return S_ISDIR(status.st_mode) ? -EISDIR : -ENODEV;
    }
    (void)::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
  };
  return open_with(opener, path, Probe::kRead, options);
}

}  // namespace mzcache::io
