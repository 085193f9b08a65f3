// Keeping buffered transfers out of the page cache: where direct I/O is refused, what was read or
// written must not stay behind as cache, for memory is short at that very moment.
#pragma once

#include <cstdint>

namespace mzcache::io {

// Largest buffered transfer made at once: bounds the cache that exists between transfer and drop.
inline constexpr std::uint64_t kBufferedStepBytes = std::uint64_t{4} << 20;

// Switches read-ahead off: what is not asked for must not be cached either.
void disable_readahead(int fd) noexcept;
// Drops the clean pages that [offset, offset + bytes) touches.
void drop_cached(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;
// Writes the range's dirty pages to the disk and waits (data only). 0, or the negative errno
// with which data was lost.
[[nodiscard]] int write_back(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;
// True where a failed write-back means lost data, false where the file system merely lacks it.
[[nodiscard]] bool is_write_failure(int result) noexcept;

}  // namespace mzcache::io
