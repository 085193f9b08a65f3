#include "system/memory_probe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

namespace mzcache::test {
namespace {

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

// Without the heap: what is measured must not move because of the measuring.
std::size_t read_text(const char* path, std::array<char, 4096>& text) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, text.data(), text.size() - 1);
  close(file);
  if (length <= 0) return 0;
  text[static_cast<std::size_t>(length)] = '\0';
  return static_cast<std::size_t>(length);
}

std::uint64_t cached_bytes_of(int file) {
  struct stat status{};
  if (fstat(file, &status) != 0 || status.st_size == 0) return 0;
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return 0;
  std::vector<unsigned char> pages((bytes + page_bytes() - 1) / page_bytes());
  std::uint64_t cached = 0;
  if (mincore(mapped, bytes, pages.data()) == 0) {
    for (const unsigned char page : pages) cached += page & 1U;
  }
  munmap(mapped, bytes);
  return cached * page_bytes();
}

}  // namespace

std::uint64_t pss_bytes() {
  std::array<char, 4096> text{};
  if (read_text("/proc/self/smaps_rollup", text) == 0) return 0;
  unsigned long long kib = 0;
  const char* line = std::strstr(text.data(), "\nPss:");
  if (line == nullptr || std::sscanf(line, "\nPss: %llu", &kib) != 1) return 0;
  return kib * 1024;
}

std::uint64_t rss_bytes() {
  std::array<char, 4096> text{};
  unsigned long long total = 0;
  unsigned long long resident = 0;
  if (read_text("/proc/self/statm", text) == 0 ||
      std::sscanf(text.data(), "%llu %llu", &total, &resident) != 2) {
    return 0;
  }
  return resident * page_bytes();
}

std::uint64_t cached_bytes(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const std::uint64_t cached = cached_bytes_of(file);
  close(file);
  return cached;
}

std::uint64_t cached_bytes_unlinked(const std::string& directory) {
  std::uint64_t cached = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (error || target.rfind(directory + "/", 0) != 0) continue;
    if (target.find(" (deleted)") == std::string::npos) continue;
    cached += cached_bytes_of(std::stoi(entry.path().filename().string()));
  }
  return cached;
}

PssWatch::PssWatch() : thread_([this] { watch(); }) {}

PssWatch::~PssWatch() {
  stop_ = true;
  thread_.join();
}

std::uint64_t PssWatch::take_highest() {
  for (const std::uint64_t before = samples_; samples_ < before + 2;) std::this_thread::yield();
  return highest_.exchange(0);
}

void PssWatch::watch() {
  while (!stop_) {
    const std::uint64_t pss = pss_bytes();
    if (pss > highest_) highest_ = pss;
    ++samples_;
  }
}

}  // namespace mzcache::test
