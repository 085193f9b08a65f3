#include "io/direct_file.h"

#include "io_fixture.h"
#include "support/catch.h"

namespace mzcache::io::test {
namespace {

TEST_CASE("A model file is opened with O_DIRECT where nothing refuses it", "[io]") {
  const Folder folder;
  const std::string path = write_pattern_file(folder, 10'000);
  Notices notices;
  const auto file = DirectFile::open(path, {true, notices.sink(), {}});
  REQUIRE(file.ok());
  CHECK(file->direct() == is_direct(file->fd()));
  CHECK(file->identity().bytes == 10'000);
  CHECK(file->identity() == identify_file(path).value());
  // Either it is direct, or the notice says that it is not.
  CHECK(notices.lines().size() == (file->direct() ? 0 : 1));
}

TEST_CASE("A refused O_DIRECT falls back to buffered with one notice", "[io]") {
  const Folder folder;
  const std::string path = write_pattern_file(folder, 8192);
  IoFaults faults;
  SECTION("at open") { faults.direct_refused_at_open = true; }
  SECTION("at the first transfer") { faults.direct_refused_at_first = true; }
  Notices notices;
  const auto file = DirectFile::open(path, {true, notices.sink(), faults});
  REQUIRE(file.ok());
  CHECK_FALSE(file->direct());
  CHECK_FALSE(is_direct(file->fd()));
  REQUIRE(notices.lines().size() == 1);
  CHECK(notices.count(path) == 1);
}

TEST_CASE("Buffered by wish is no reason for a notice", "[io]") {
  const Folder folder;
  Notices notices;
  const auto file = DirectFile::open(write_pattern_file(folder, 8192), {false, notices.sink(), {}});
  REQUIRE(file.ok());
  CHECK_FALSE(is_direct(file->fd()));
  CHECK(notices.lines().empty());
}

TEST_CASE("What cannot be a model file is refused with its name", "[io]") {
  const Folder folder;
  const auto missing = DirectFile::open(folder.path() + "/nothing", {});
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().message().find("/nothing") != std::string::npos);

  const auto directory = DirectFile::open(folder.path(), {});
  REQUIRE_FALSE(directory.ok());
  CHECK(directory.error().native == EISDIR);

  const std::string pipe = folder.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE_FALSE(DirectFile::open(pipe, {}).ok());  // and does not hang
}

TEST_CASE("An empty file opens", "[io]") {
  const Folder folder;
  CHECK(DirectFile::open(write_pattern_file(folder, 0), {}).ok());
}

}  // namespace
}  // namespace mzcache::io::test
