// Faults that only real devices have: an unreadable disk, a full disk. Needs root.
#include <linux/loop.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include "io/storage.h"
#include "io_fixture.h"
#include "support/catch.h"

namespace mzcache::io::test {
namespace {

using actors::FileId;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// A loop device over a file; detached at the end.
class LoopDevice {
 public:
  explicit LoopDevice(const std::string& backing) {
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    REQUIRE(control >= 0);
    const int file = ::open(backing.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(file >= 0);
    // Another process may take the free number first.
    for (int attempt = 0; attempt < 20 && fd_ < 0; ++attempt) {
      const int number = ::ioctl(control, LOOP_CTL_GET_FREE);
      REQUIRE(number >= 0);
      path_ = "/dev/loop" + std::to_string(number);
      const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
      if (fd >= 0 && ::ioctl(fd, LOOP_SET_FD, file) == 0) {
        fd_ = fd;
      } else if (fd >= 0) {
        ::close(fd);
      }
    }
    ::close(file);
    ::close(control);
    INFO("no loop device could be attached: " << path_);
    REQUIRE(fd_ >= 0);
  }
  ~LoopDevice() {
    if (fd_ < 0) return;
    (void)::ioctl(fd_, LOOP_CLR_FD);
    ::close(fd_);
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

TEST_CASE("A disk that cannot be read gives EIO, and the device goes on", "[io][root]") {
  if (::access("/dev/loop-control", F_OK) != 0) {
    WARN("there are no loop devices here: real EIO was not tested");
    return;
  }
  const Folder folder;
  const std::string backing = write_pattern_file(folder, 4 * kMiB);
  StorageOptions options;
  options.engine = GENERATE("io_uring", "threads");
  const LoopDevice loop(backing);
  const auto files = StorageFiles::open(loop.path(), options);
  REQUIRE(files.ok());
  const auto device = open_storage(*files, options);
  REQUIRE(device.ok());
  const Buffer buffer(kMiB);
  REQUIRE(read_at(**device, FileId::kModel, 3 * kMiB, buffer.span()) == kMiB);
  CHECK(holds_pattern(buffer.span(), 3 * kMiB));

  std::filesystem::resize_file(backing, 2 * kMiB);
  CHECK(read_at(**device, FileId::kModel, 3 * kMiB, buffer.span()) == -EIO);
  CHECK(read_at(**device, FileId::kModel, kMiB, buffer.span()) == kMiB);
  CHECK(holds_pattern(buffer.span(), kMiB));
}

TEST_CASE("A full disk is kNoSpace, gives back what it took, and writes below go on",
          "[io][root]") {
  const Folder folder;
  // In a mount namespace of its own, so that nothing stays mounted however the test ends.
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=8m") != 0) {
    WARN("mounting is not allowed here: a full disk was not tested");
    return;
  }
  {
    StorageOptions options;
    options.engine = GENERATE("io_uring", "threads");
    options.swap_directory = folder.path();
    options.swap_extent_bytes = 4 * kMiB;
    options.faults.no_fallocate = GENERATE(false, true);
    const auto files = StorageFiles::open("", options);
    REQUIRE(files.ok());
    const auto device = open_storage(*files, options);
    REQUIRE((*device)->grow(FileId::kSwap, 4 * kMiB).ok());
    const auto full = (*device)->grow(FileId::kSwap, 9 * kMiB);
    REQUIRE_FALSE(full.ok());
    CHECK(full.error().code == ErrorCode::kNoSpace);
    CHECK(full.error().message().find(folder.path()) != std::string::npos);
    CHECK((*files)->swap().size() == 4 * kMiB);
    CHECK((*device)->grow(FileId::kSwap, 7 * kMiB).ok());  // nothing of the failed part stayed

    const Buffer buffer(kMiB);
    for (std::size_t i = 0; i < kMiB; ++i) buffer.span()[i] = pattern_at(i);
    CHECK(write_at(**device, 6 * kMiB, buffer.span()) == kMiB);
    std::memset(buffer.span().data(), 0, kMiB);
    CHECK(read_at(**device, FileId::kSwap, 6 * kMiB, buffer.span()) == kMiB);
    CHECK(holds_pattern(buffer.span(), 0));
  }
  (void)::umount(folder.path().c_str());
}

}  // namespace
}  // namespace mzcache::io::test
