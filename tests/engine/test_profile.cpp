// The profile's file: what is written is read, and nothing else is.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "engine/profile.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::engine;
namespace fs = std::filesystem;

namespace {

Profile example() {
  Profile profile;
  profile.key = "machine \"x\"; codec q8";
  profile.alone = {1.4e9, 1.6e9, 5.25e9, 3e9, 2.25e9};
  profile.busy = {1.1e9, 0, 0, 2e9};
  profile.decode_cpu_s_per_byte = 1.0 / 5.5e9;
  profile.storage_decode_cpu_s_per_byte = 1.0 / 2.5e9;
  profile.write_bytes_per_s = 8e8;
  profile.encode_bytes_per_s = 2e9;
  profile.measure_s = 0.4;
  profile.prefill["00ff"] = 123.456;
  return profile;
}

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "mzcache-profile-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a profile survives its file") {
  const Folder folder;
  const std::string path = folder / "deep/er/p.json";
  REQUIRE(save_profile(path, example()).ok());
  const auto loaded = load_profile(path, example().key);
  REQUIRE(loaded.ok());
  CHECK(*loaded == example());
  // Replaced, and nothing beside it is left.
  Profile other = example();
  other.alone.model_read = 2e9;
  REQUIRE(save_profile(path, other).ok());
  CHECK(*load_profile(path, other.key) == other);
  CHECK(folder.entries() == 1);
  CHECK(std::distance(fs::directory_iterator(folder / "deep/er"), fs::directory_iterator()) == 1);
}

TEST_CASE("a damaged or foreign profile is not believed") {
  const Folder folder;
  const std::string path = folder / "p.json";
  CHECK(load_profile(path, "k").error().code == ErrorCode::kNotFound);
  const std::string good = profile_text(example());
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), good.substr(0, good.size() / 2),
        replaced(good, "1400000000.0", "1400000001.0"),
        replaced(good, "\"version\": 2", "\"version\": 1"), replaced(good, "codec q8", "codec q4"),
        replaced(good, "\"busy\"", "\"bzzy\"")}) {
    INFO(text);
    write(path, text);
    const auto loaded = load_profile(path, example().key);
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.error().code == ErrorCode::kBadFormat);
    CHECK(loaded.error().context.find(path) != std::string::npos);
  }
  write(path, good);
  CHECK(load_profile(path, "another key").error().code == ErrorCode::kBadFormat);
  CHECK(load_profile(path, example().key).ok());
}

TEST_CASE("every changed bit of a profile's figures is found") {
  const std::string good = profile_text(example());
  const std::size_t begin = good.find("\"profile\"");
  for (std::size_t at = begin; at < good.size(); ++at) {
    if (good[at] < '0' || good[at] > '9') continue;
    std::string text = good;
    text[at] = static_cast<char>(text[at] ^ 1);
    INFO(at);
    const auto parsed = parse_profile(text);
    // A last digit may round to the number that was there.
    CHECK((!parsed.ok() || *parsed == example()));
  }
}

TEST_CASE("impossible rates are refused though the checksum is right") {
  for (const double rate : {0.0, -1.0, 1e300}) {
    Profile profile = example();
    profile.alone.decode = rate;
    CHECK_FALSE(parse_profile(profile_text(profile)).ok());
  }
  Profile profile = example();
  profile.busy.model_read = -5;
  CHECK_FALSE(parse_profile(profile_text(profile)).ok());
  profile = example();
  profile.prefill["00ff"] = 0;
  CHECK_FALSE(parse_profile(profile_text(profile)).ok());
}

TEST_CASE("a directory that cannot be written is an error that names the file") {
  const Folder folder;
  write(folder / "file", "x");
  const auto saved = save_profile(folder / "file/p.json", example());
  REQUIRE_FALSE(saved.ok());
  CHECK(saved.error().context == folder / "file/p.json");
  CHECK(saved.error().native != 0);
}

TEST_CASE("keys have files of their own") {
  CHECK(profile_path("/c", "a") != profile_path("/c", "b"));
  CHECK(profile_path("/c", "a") == profile_path("/c", "a"));
  CHECK(profile_path("/c", "a").starts_with("/c/"));
}

TEST_CASE("the planner gets the figures alone, and assumptions where there are none") {
  const RestoreProfile planned = restore_profile(example());
  CHECK(planned.model_read_bytes_per_s == 1.4e9);
  CHECK(planned.swap_read_bytes_per_s == 1.6e9);
  CHECK(planned.decode_bytes_per_s == 5.25e9);
  CHECK(planned.allocate_bytes_per_s == 3e9);
  CHECK(planned.decode_cpu_s_per_byte == 1.0 / 5.5e9);
  CHECK(restore_profile({}).model_read_bytes_per_s == RestoreProfile{}.model_read_bytes_per_s);
  // A file that was not measured is taken to be as fast as the other.
  Profile without_model = example();
  without_model.alone.model_read = 0;
  CHECK(restore_profile(without_model).model_read_bytes_per_s == 1.6e9);
  CHECK(read_rate(without_model.alone) == 1.6e9);
  CHECK(parse_profile(profile_text(without_model)).ok());
  without_model.alone.swap_read = 0;
  CHECK_FALSE(parse_profile(profile_text(without_model)).ok());
  CHECK(read_rate({1e9, 3e9, 0, 0}) == Approx(1.5e9));
}

TEST_CASE("what was learnt goes into the profile, what was given does not") {
  Profile profile = example();
  RateHistory history(profile.alone, profile.busy, {9e9, 9e9, 0, 0});
  for (int i = 0; i < 10; ++i) {
    history.add(RestoreStage::kDecode, DeviceLoad::kAlone, 1e9, 1.0);
    history.add(RestoreStage::kDecode, DeviceLoad::kBusy, 5e8, 1.0);
  }
  learn_from(history, profile);
  CHECK(profile.alone.decode == Approx(1e9));
  CHECK(profile.busy.decode == Approx(5e8));
  CHECK(profile.alone.model_read == 1.4e9);
  CHECK(profile.alone.swap_read == 1.6e9);
  CHECK(profile.busy.model_read == 1.1e9);
}
