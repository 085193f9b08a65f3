#include "io/swap_file.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>

#include "io_fixture.h"
#include "support/catch.h"

namespace mzcache::io::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct stat status_of(const SwapFile& swap) {
  struct stat status{};
  REQUIRE(swap.file() != nullptr);
  REQUIRE(::fstat(swap.file()->fd(), &status) == 0);
  return status;
}

TEST_CASE("The swap file has no name, mode 0600, and its blocks are allocated", "[io]") {
  const Folder folder;
  SwapOptions options;
  options.extent_bytes = 4 * kMiB;
  SECTION("unnamed") {}
  SECTION("created and unlinked") { options.file.faults.no_tmpfile = true; }
  SECTION("without fallocate") { options.file.faults.no_fallocate = true; }
  SECTION("without fallocate, buffered") {
    options.file.faults.no_fallocate = true;
    options.file.direct = false;
  }
  SwapFile swap(folder.path(), options);
  CHECK(swap.file() == nullptr);  // lazily
  CHECK(std::filesystem::is_empty(folder.path()));

  REQUIRE(swap.grow(5 * kMiB).ok());
  CHECK(swap.size() == 8 * kMiB);
  struct stat status = status_of(swap);
  CHECK(status.st_nlink == 0);
  CHECK((status.st_mode & 07777U) == 0600);
  CHECK(status.st_size == 8 * kMiB);
  CHECK(status.st_blocks * 512 >= static_cast<blkcnt_t>(8 * kMiB));
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(left_in_cache(swap.file()->fd()) == 0);

  REQUIRE(swap.grow(kMiB).ok());  // never shrinks
  CHECK(swap.size() == 8 * kMiB);
  REQUIRE(swap.shrink(kMiB + 1).ok());
  CHECK(swap.size() == kMiB + 4096);
  CHECK(status_of(swap).st_blocks * 512 < static_cast<blkcnt_t>(2 * kMiB));
  REQUIRE(swap.grow(2 * kMiB).ok());
  CHECK(status_of(swap).st_size == 4 * kMiB);
}

TEST_CASE("A limit clips the extents and refuses what lies beyond", "[io]") {
  const Folder folder;
  SwapOptions options;
  options.extent_bytes = 4 * kMiB;
  options.bytes_max = 3 * kMiB;
  SwapFile swap(folder.path(), options);
  REQUIRE(swap.grow(kMiB).ok());
  CHECK(swap.size() == 3 * kMiB);
  const auto beyond = swap.grow(3 * kMiB + 1);
  REQUIRE_FALSE(beyond.ok());
  CHECK(beyond.error().code == ErrorCode::kNoSpace);
  CHECK(swap.size() == 3 * kMiB);
}

TEST_CASE("What does not fit is kNoSpace, names the directory and leaves the file as it was",
          "[io]") {
  const Folder folder;
  SwapFile swap(folder.path(), {});
  REQUIRE(swap.grow(kMiB).ok());
  const std::uint64_t before = swap.size();
  const blkcnt_t blocks = status_of(swap).st_blocks;
  for (const std::uint64_t bytes :
       {std::uint64_t{1} << 50, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    const auto grown = swap.grow(bytes);
    REQUIRE_FALSE(grown.ok());
    CHECK(grown.error().code == ErrorCode::kNoSpace);
    CHECK(grown.error().message().find(folder.path()) != std::string::npos);
    CHECK(swap.size() == before);
    CHECK(status_of(swap).st_blocks == blocks);
  }
}

TEST_CASE("A file size limit of the process is no space, not a signal", "[io]") {
  const Folder folder;
  struct rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  struct rlimit low = old;
  low.rlim_cur = 2 * kMiB;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &low) == 0);
  SwapFile swap(folder.path(), {});
  const auto fits = swap.grow(kMiB);  // the extent does not, the request does
  const auto grown = swap.grow(3 * kMiB);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
  CHECK(fits.ok());
  CHECK(swap.size() == kMiB);
  REQUIRE_FALSE(grown.ok());
  CHECK(grown.error().code == ErrorCode::kNoSpace);
}

TEST_CASE("A directory that is not there, or none", "[io]") {
  const Folder folder;
  SwapFile missing(folder.path() + "/none", {});
  const auto grown = missing.grow(1);
  REQUIRE_FALSE(grown.ok());
  CHECK(grown.error().code == ErrorCode::kNotFound);
  CHECK(grown.error().message().find("/none") != std::string::npos);
  SwapFile nowhere("", {});
  CHECK(nowhere.grow(1).error().code == ErrorCode::kBadArgument);
}

TEST_CASE("Refused direct I/O for the swap file is noticed once", "[io]") {
  const Folder folder;
  Notices notices;
  SwapOptions options;
  options.file.notice = notices.sink();
  options.file.faults.direct_refused_at_first = true;
  SwapFile swap(folder.path(), options);
  CHECK(notices.lines().empty());
  REQUIRE(swap.grow(1).ok());
  REQUIRE(swap.grow(40 * kMiB).ok());
  CHECK_FALSE(is_direct(swap.file()->fd()));
  CHECK(notices.count(folder.path()) == 1);
  CHECK(notices.lines().size() == 1);
}

TEST_CASE("Nothing is left after SIGKILL", "[io]") {
  const Folder folder;
  IoFaults faults;
  SECTION("unnamed") {}
  SECTION("created and unlinked") { faults.no_tmpfile = true; }
  std::array<int, 2> ready{};
  REQUIRE(::pipe(ready.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    SwapOptions options;
    options.file.faults = faults;
    SwapFile swap(folder.path(), options);
    const char done = swap.grow(kMiB).ok() ? 'y' : 'n';
    (void)!::write(ready[1], &done, 1);
    for (;;) ::pause();
  }
  char done = 0;
  REQUIRE(::read(ready[0], &done, 1) == 1);
  CHECK(done == 'y');
  REQUIRE(::kill(child, SIGKILL) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ::close(ready[0]);
  ::close(ready[1]);
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace mzcache::io::test
