#include "gpu/unit_memory_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace mzcache::gpu {
namespace {

std::uint64_t address_of(const std::byte* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

constexpr int kAttemptsMax = 100;  // where the kernel says "again"

int advise(std::byte* begin, std::uint64_t bytes, int advice) {
  int failed = 0;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (madvise(begin, bytes, advice) == 0) return 0;
    failed = errno;
    if (failed != EINTR && failed != EAGAIN) break;
  }
  return failed;
}

// Kernels before 5.14 have no MADV_POPULATE_WRITE: each page is touched instead.
void touch(std::byte* begin, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += kPageBytes) {
    *reinterpret_cast<volatile std::byte*>(begin + at) = std::byte{0};
  }
}

int populate_now(std::byte* begin, std::uint64_t bytes) {
  const int failed = advise(begin, bytes, MADV_POPULATE_WRITE);
  if (failed != EINVAL) return failed;
  touch(begin, bytes);
  return 0;
}

// What holds for all of a reservation: the user's text stays out of core dumps, and children do not
// get copies.
void keep_private(std::byte* begin, std::uint64_t bytes) {
  (void)advise(begin, bytes, MADV_DONTDUMP);
  (void)advise(begin, bytes, MADV_DONTFORK);
}

// Whole huge pages without memory are mapped anew. Where small pages were before, their page tables
// stay when they leave in pieces, and as long as there is one a huge page cannot take its place.
int prepare_huge(std::byte* begin, std::uint64_t bytes) {
  if (mmap(begin, bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return errno;
  }
  keep_private(begin, bytes);
  // A wish: without transparent huge pages the same range comes as small ones.
  (void)advise(begin, bytes, MADV_HUGEPAGE);
  return 0;
}

int populate_piece(std::byte* begin, std::uint64_t bytes, bool huge, const PopulateFault& fault) {
  if (bytes == 0) return 0;
  if (fault) {
    if (const int injected = fault(bytes); injected != 0) return injected;
  }
  if (huge) {
    if (const int failed = prepare_huge(begin, bytes); failed != 0) return failed;
  }
  return populate_now(begin, bytes);
}

// Addresses from a huge page's border on, without memory; null with errno where there are none.
std::byte* reserve_aligned(std::uint64_t bytes) noexcept {
  const std::uint64_t mapped = bytes + kHugePageBytes;  // room to align in
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* base = static_cast<std::byte*>(raw);
  const std::uint64_t skip = (kHugePageBytes - address_of(base) % kHugePageBytes) % kHugePageBytes;
  if (skip != 0) munmap(base, skip);
  munmap(base + skip + bytes, mapped - skip - bytes);
  return base + skip;
}

}  // namespace

Result<PageReservation> PageReservation::create(std::uint64_t bytes) {
  const std::uint64_t wanted = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  if (wanted < bytes || wanted + kHugePageBytes < wanted) {
    return Error{ErrorCode::kBadArgument, 0, "reserve memory", std::to_string(bytes) + " bytes"};
  }
  std::byte* const data = reserve_aligned(wanted);
  if (data == nullptr) {
    return Error{ErrorCode::kNoMemory, errno, "reserve memory", std::to_string(bytes) + " bytes"};
  }
  PageReservation reservation;
  reservation.data_ = data;
  reservation.bytes_ = wanted;
  (void)advise(data, wanted, MADV_NOHUGEPAGE);
  keep_private(data, wanted);
  return reservation;
}

PageReservation::PageReservation(PageReservation&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PageReservation& PageReservation::operator=(PageReservation&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PageReservation::~PageReservation() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Result<void> populate_pages(std::byte* begin, std::uint64_t bytes, bool huge,
                            const PopulateFault& fault) {
  const std::uint64_t into_page = address_of(begin) % kHugePageBytes;
  const std::uint64_t to_next_page = into_page == 0 ? 0 : kHugePageBytes - into_page;
  const std::uint64_t head = huge ? std::min(to_next_page, bytes) : bytes;
  const std::uint64_t middle = (bytes - head) / kHugePageBytes * kHugePageBytes;
  const std::uint64_t tail = bytes - head - middle;
  int failed = populate_piece(begin, head, false, fault);
  if (failed == 0) failed = populate_piece(begin + head, middle, true, fault);
  if (failed == 0) failed = populate_piece(begin + head + middle, tail, false, fault);
  if (failed == 0) return {};
  release_pages(begin, bytes);
  return Error{ErrorCode::kNoMemory, failed, "populate memory", std::to_string(bytes) + " bytes"};
}

void release_pages(std::byte* begin, std::uint64_t bytes) noexcept {
  if (bytes == 0) return;
  // First the advice: it splits a huge page that is only partly inside, then whole pages go.
  (void)advise(begin, bytes, MADV_NOHUGEPAGE);
  (void)advise(begin, bytes, MADV_DONTNEED);
}

std::byte* map_pages(std::uint64_t bytes, bool huge) noexcept {
  std::byte* const begin = reserve_aligned(bytes);
  if (begin == nullptr) return nullptr;
  keep_private(begin, bytes);
  if (huge && bytes % kHugePageBytes == 0) (void)advise(begin, bytes, MADV_HUGEPAGE);
  if (populate_now(begin, bytes) == 0) return begin;
  munmap(begin, bytes);
  return nullptr;
}

void unmap_pages(std::byte* begin, std::uint64_t bytes) noexcept { munmap(begin, bytes); }

namespace {

// A small file of /proc, ended by a zero; empty where it cannot be read.
std::array<char, 2048> proc_text(const char* path) noexcept {
  std::array<char, 2048> text{};
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  const ssize_t length = read(file, text.data(), text.size() - 1);
  close(file);
  text[length > 0 ? static_cast<std::size_t>(length) : 0] = '\0';
  return text;
}

}  // namespace

std::uint64_t process_rss_bytes() noexcept {
  const auto text = proc_text("/proc/self/statm");
  unsigned long long pages = 0;
  if (std::sscanf(text.data(), "%*u %llu", &pages) != 1) return 0;  // NOLINT(cert-*)
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t process_pss_bytes() noexcept {
  const auto text = proc_text("/proc/self/smaps_rollup");
  const char* line = std::strstr(text.data(), "\nPss:");
  unsigned long long kib = 0;
  if (line == nullptr || std::sscanf(line, "\nPss: %llu", &kib) != 1) return 0;  // NOLINT(cert-*)
  return kib * 1024;
}

}  // namespace mzcache::gpu
