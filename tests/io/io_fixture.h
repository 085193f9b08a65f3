// What the storage tests share: files with known content, aligned buffers, a synchronous driver.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/ports.h"
#include "io/storage.h"

namespace mzcache::io::test {

// A directory on a disk (not in /tmp, which may be memory), gone at the end.
class Folder {
 public:
  Folder() {
    std::string pattern = std::string(MZCACHE_BINARY_DIR) + "/io-test-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The byte at a position of every test file.
inline std::byte pattern_at(std::uint64_t position) {
  std::uint64_t x = position * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::byte>(x >> 56);
}

// A file of pattern bytes, on disk and out of the page cache.
inline std::string write_pattern_file(const Folder& folder, std::uint64_t bytes) {
  const std::string path = folder.path() + "/model.gguf";
  const int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) std::abort();
  std::vector<std::byte> content(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) content[i] = pattern_at(i);
  if (::write(fd, content.data(), bytes) != static_cast<ssize_t>(bytes)) std::abort();
  if (::fsync(fd) != 0) std::abort();
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
  return path;
}

// Memory aligned for direct I/O.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(
            actors::kBlockAlignment, actors::align_up(bytes, actors::kBlockAlignment)))),
        bytes_(bytes) {
    std::memset(memory_.get(), 0xEE, bytes);
  }
  [[nodiscard]] std::span<std::byte> span() const { return {memory_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_;
};

// Collects notices from any thread.
class Notices {
 public:
  [[nodiscard]] Notice sink() {
    return [this](std::string line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(std::move(line));
    };
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  // How many contain `word`.
  [[nodiscard]] std::size_t count(const std::string& word) const {
    std::size_t found = 0;
    for (const std::string& line : lines()) found += line.find(word) != std::string::npos ? 1 : 0;
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

// Waits until `count` completions have arrived.
inline std::vector<actors::BlockCompletion> collect(actors::BlockDevice& device,
                                                    std::size_t count) {
  std::vector<actors::BlockCompletion> all;
  std::array<actors::BlockCompletion, 3> some{};  // small: reap must cope
  while (all.size() < count) {
    const std::size_t got = device.reap(some);
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(got));
    if (got == 0 && all.size() < count) device.wait();
  }
  return all;
}

// One request, start to end.
inline std::int64_t transfer(actors::BlockDevice& device, actors::BlockRequest request) {
  request.tag = 77;
  if (!device.submit(request)) return -EBADMSG;
  device.flush();
  const auto done = collect(device, 1);
  return done[0].tag == 77 ? done[0].result : -EBADMSG;
}
inline std::int64_t read_at(actors::BlockDevice& device, actors::FileId file, std::uint64_t offset,
                            std::span<std::byte> buffer) {
  return transfer(device, {actors::BlockRequest::Operation::kRead, file, offset, buffer, 0});
}
inline std::int64_t write_at(actors::BlockDevice& device, std::uint64_t offset,
                             std::span<std::byte> buffer) {
  return transfer(
      device, {actors::BlockRequest::Operation::kWrite, actors::FileId::kSwap, offset, buffer, 0});
}

inline bool is_direct(int fd) { return (::fcntl(fd, F_GETFL) & O_DIRECT) != 0; }

// Pages of the file in the page cache.
inline std::size_t cached_pages(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) std::abort();
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* view = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (view == MAP_FAILED) std::abort();
  std::vector<unsigned char> resident((bytes + 4095) / 4096);
  if (::mincore(view, bytes, resident.data()) != 0) std::abort();
  ::munmap(view, bytes);
  std::size_t count = 0;
  for (const unsigned char page : resident) count += page & 1U;
  return count;
}

// The same, but 0 on file systems in memory, where the cache is the file itself.
inline std::size_t left_in_cache(int fd) {
  constexpr auto kTmpfs = 0x01021994;
  constexpr auto kRamfs = 0x858458f6;
  struct statfs system{};
  if (::fstatfs(fd, &system) != 0) std::abort();
  const bool in_memory = system.f_type == kTmpfs || system.f_type == kRamfs;
  return in_memory ? 0 : cached_pages(fd);
}

inline bool holds_pattern(std::span<const std::byte> bytes, std::uint64_t offset) {
  for (std::uint64_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != pattern_at(offset + i)) return false;
  }
  return true;
}

}  // namespace mzcache::io::test
