#include "io/storage.h"

#include "io_fixture.h"
#include "support/catch.h"

namespace mzcache::io::test {
namespace {

using actors::FileId;

TEST_CASE("Options out of range name their key", "[io]") {
  const Folder folder;
  StorageOptions options;
  const auto files = StorageFiles::open(write_pattern_file(folder, 4096), options);
  REQUIRE(files.ok());
  std::string key;
  SECTION("depth 0") { options.depth = 0, key = "storage.depth"; }
  SECTION("depth too large") { options.depth = 1025, key = "storage.depth"; }
  SECTION("block 0") { options.block = 0, key = "storage.block"; }
  SECTION("block not whole") { options.block = 5000, key = "storage.block"; }
  SECTION("engine") { options.engine = "aio", key = "storage.engine"; }
  const auto device = open_storage(*files, options);
  REQUIRE_FALSE(device.ok());
  CHECK(device.error().code == ErrorCode::kBadConfig);
  CHECK(device.error().message().find(key) != std::string::npos);
}

TEST_CASE("A refused ring gives threads and one notice for all devices", "[io]") {
  const Folder folder;
  Notices notices;
  StorageOptions options;
  options.notice = notices.sink();
  options.faults.ring_error = GENERATE(EPERM, ENOSYS, ENOMEM);
  const auto files = StorageFiles::open(write_pattern_file(folder, 8192), options);
  REQUIRE(files.ok());
  const auto reader = open_storage(*files, options);
  const auto writer = open_storage(*files, options);
  REQUIRE(reader.ok());
  REQUIRE(writer.ok());
  CHECK(notices.count("io_uring") == 1);
  CHECK(notices.count("threads") == 1);
  const Buffer buffer(8192);
  CHECK(read_at(**reader, FileId::kModel, 0, buffer.span()) == 8192);
  CHECK(holds_pattern(buffer.span(), 0));
  // The pool is what served it.
  bool pool = false;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const int fd = ::open((task.path() / "comm").c_str(), O_RDONLY | O_CLOEXEC);
    std::array<char, 32> name{};
    (void)!::read(fd, name.data(), name.size() - 1);
    ::close(fd);
    pool = pool || std::string(name.data()).starts_with("storage-io-");
  }
  CHECK(pool);
}

TEST_CASE("A model that changed after its metadata was read is refused at open", "[io]") {
  const Folder folder;
  const std::string path = write_pattern_file(folder, 8192);
  const auto identity = identify_file(path);
  REQUIRE(identity.ok());
  CHECK(StorageFiles::open(path, {}, *identity).ok());
  std::filesystem::resize_file(path, 8193);
  const auto changed = StorageFiles::open(path, {}, *identity);
  REQUIRE_FALSE(changed.ok());
  CHECK(changed.error().code == ErrorCode::kBadFormat);
  CHECK(changed.error().message().find("8193") != std::string::npos);
}

TEST_CASE("Names are for people", "[io]") {
  const Folder folder;
  StorageOptions options;
  options.swap_directory = folder.path();
  const std::string path = write_pattern_file(folder, 4096);
  const auto files = StorageFiles::open(path, options);
  const auto device = open_storage(*files, options);
  CHECK((*device)->name(FileId::kModel) == path);
  CHECK((*device)->name(FileId::kSwap).find(folder.path()) != std::string::npos);
  CHECK((*device)->depth() == 8);
  CHECK((*device)->block_bytes() == std::uint64_t{1} << 20);
}

}  // namespace
}  // namespace mzcache::io::test
