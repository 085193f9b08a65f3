// The swap file: where KV chunks go that are neither in a shared buffer nor in memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "io/direct_file.h"
#include "mzcache/errors.h"

namespace mzcache::io {

struct SwapOptions {
  DirectOptions file;
  // Growth is rounded up to this, unless that does not fit on the disk or below bytes_max.
  std::uint64_t extent_bytes = std::uint64_t{16} << 20;
  std::uint64_t bytes_max = 0;  // what the file may reach; 0: as much as the disk takes
};

// Whether a swap file could be made in the directory, asked when it is configured rather than when
// memory is short. The error names the directory and the reason; nothing is created.
[[nodiscard]] Result<void> check_swap_directory(const std::string& directory);

// Holds private text, so it never has a name that survives: O_TMPFILE, or created with mode 0600
// and unlinked at once. It is there from the first grow() on, and nothing of it remains after the
// process, however that ends. Every byte below size() is allocated on the disk, so a write there
// does not fail for want of space. Thread-safe.
class SwapFile {
 public:
  SwapFile(std::string directory, SwapOptions options);

  // Makes [0, bytes) allocated. kNoSpace names the directory; the file then keeps its size.
  [[nodiscard]] Result<void> grow(std::uint64_t bytes);
  // Gives everything from `bytes` on (rounded up to whole blocks) back to the file system.
  [[nodiscard]] Result<void> shrink(std::uint64_t bytes);

  // nullptr before the first grow(); then valid as long as this object.
  [[nodiscard]] const DirectFile* file() const noexcept {
    return published_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t size() const noexcept {
    return size_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::string name() const { return "swap file in " + directory_; }

 private:
  Result<void> create();
  // Each allocates [size, bytes) or returns a negative errno.
  int allocate(std::uint64_t bytes) const;
  int allocate_by_writing(std::uint64_t bytes) const;
  // 0, or the negative errno for which [0, bytes) cannot fit: asked before, so that a file that
  // does not fit does not fill the disk first.
  int room_for(std::uint64_t bytes) const;

  const std::string directory_;
  const SwapOptions options_;
  std::mutex mutex_;  // growing and shrinking
  std::optional<DirectFile> file_;
  std::atomic<const DirectFile*> published_{nullptr};
  std::atomic<std::uint64_t> size_{0};
};

}  // namespace mzcache::io
