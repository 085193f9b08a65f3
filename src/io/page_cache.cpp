#include "io/page_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "actors/units.h"

namespace mzcache::io {

void disable_readahead(int fd) noexcept { (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); }

void drop_cached(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  // The kernel keeps pages that the range covers in part.
  const std::uint64_t begin = offset / actors::kBlockAlignment * actors::kBlockAlignment;
  const std::uint64_t end = actors::align_up(offset + bytes, actors::kBlockAlignment);
  (void)::posix_fadvise(fd, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                        POSIX_FADV_DONTNEED);
}

int write_back(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  constexpr unsigned kAll =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (::sync_file_range(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes), kAll) == 0) {
    return 0;
  }
  if (is_write_failure(-errno)) return -errno;
  return ::fdatasync(fd) != 0 && is_write_failure(-errno) ? -errno : 0;
}

bool is_write_failure(int result) noexcept {
  return result == -EIO || result == -ENOSPC || result == -EDQUOT;
}

}  // namespace mzcache::io
