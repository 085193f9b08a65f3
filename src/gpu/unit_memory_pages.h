// Anonymous memory page by page: reserved as addresses, populated and given back at will.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "mzcache/errors.h"

namespace mzcache::gpu {

inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

// Asked before each piece is populated; a non-zero errno makes it fail. Empty outside tests.
using PopulateFault = std::function<int(std::uint64_t bytes)>;

// A range of addresses, aligned to huge pages, readable and writable but without memory until
// populated. The kernel is told not to count it against the overcommit limit (which it ignores in
// mode 2), not to write it to core dumps, which would hold the user's text, and not to copy it to
// forked children, whose copies would change what this process is charged for.
// Different pages may be used from different threads.
class PageReservation {
 public:
  [[nodiscard]] static Result<PageReservation> create(std::uint64_t bytes);
  PageReservation() = default;
  PageReservation(PageReservation&& other) noexcept;
  PageReservation& operator=(PageReservation&& other) noexcept;
  PageReservation(const PageReservation&) = delete;
  PageReservation& operator=(const PageReservation&) = delete;
  ~PageReservation();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// Gives zeroed memory to whole pages of a reservation that have none: whole 2 MiB pages inside the
// range as huge pages where `huge`, the edges page by page. All or nothing: kNoMemory.
[[nodiscard]] Result<void> populate_pages(std::byte* begin, std::uint64_t bytes, bool huge,
                                          const PopulateFault& fault);
// Returns the pages to the system at once. What remains of a huge page stays as small pages and is
// not collapsed again by the kernel, which would bring the released half back.
void release_pages(std::byte* begin, std::uint64_t bytes) noexcept;

// A mapping of its own with memory in it, for a short time; null where memory is short. Like a
// reservation neither in core dumps nor copied to children. Whole huge pages are aligned and, where
// `huge`, come as such.
[[nodiscard]] std::byte* map_pages(std::uint64_t bytes, bool huge) noexcept;
void unmap_pages(std::byte* begin, std::uint64_t bytes) noexcept;

// The process's proportional share of memory, bytes; 0 where the system does not say.
[[nodiscard]] std::uint64_t process_pss_bytes() noexcept;
// RSS of /proc/self/statm, 0 where it cannot be read.
[[nodiscard]] std::uint64_t process_rss_bytes() noexcept;

}  // namespace mzcache::gpu
