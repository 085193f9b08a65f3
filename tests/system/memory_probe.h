// What the kernel says of this process's memory and of files in its page cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace mzcache::test {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Pss of /proc/self/smaps_rollup, bytes.
[[nodiscard]] std::uint64_t pss_bytes();
// Resident set of /proc/self/statm, bytes.
[[nodiscard]] std::uint64_t rss_bytes();

// Pages of a file in the page cache, in bytes.
[[nodiscard]] std::uint64_t cached_bytes(const std::string& path);
// The same for the unlinked files this process has open below `directory`: the swap file.
[[nodiscard]] std::uint64_t cached_bytes_unlinked(const std::string& directory);

// Watches the PSS from a thread of its own and keeps the highest value.
class PssWatch {
 public:
  PssWatch();
  ~PssWatch();
  PssWatch(const PssWatch&) = delete;
  PssWatch& operator=(const PssWatch&) = delete;
  // The highest value since the last call; at least one was read after this one began.
  std::uint64_t take_highest();
  [[nodiscard]] std::uint64_t samples() const noexcept { return samples_.load(); }

 private:
  void watch();

  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> highest_{0};
  std::atomic<std::uint64_t> samples_{0};
  std::thread thread_;
};

}  // namespace mzcache::test
