// What came back from the swap file is not what was written: it never reaches the model. The
// context is computed again from its tokens, and the answer is the one it would have been.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.h"
#include "system/system_harness.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

const std::string kModel = committed_golden() + "/models/llama-gqa.gguf";
constexpr double kRecomputedRmsMax = 0.02;

// A directory of its own, so that the swap file in it is found among the process's open files.
class SwapDirectory {
 public:
  SwapDirectory() {
    std::string name = "/var/tmp/mzcache-test-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = std::filesystem::canonical(name).string();
  }
  ~SwapDirectory() { std::filesystem::remove_all(path_); }
  SwapDirectory(const SwapDirectory&) = delete;
  SwapDirectory& operator=(const SwapDirectory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

  // The swap file opened once more: it has no name, but the process holds it.
  [[nodiscard]] int open_swap_file() const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const auto target = std::filesystem::read_symlink(entry.path(), error);
      if (!error && target.string().starts_with(path_ + "/")) {
        return ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
      }
    }
    return -1;
  }

 private:
  std::string path_;
};

// Evicts everything, lets `damage` have the swap file, goes on.
template <class Damage>
void check_damage(const Settings& more, Damage damage) {
  const SwapDirectory directory;
  Settings settings{"memory.swap_directory=" + directory.path()};
  settings.insert(settings.end(), more.begin(), more.end());
  System reference(kModel, {"memory.codec=none"});
  System system(kModel, settings);
  const auto tokens = made_up_tokens(620, system.model().info().vocabulary);
  const std::span<const Token> first = std::span(tokens).first(600);
  const std::span<const Token> rest = std::span(tokens).subspan(600);
  (void)reference.last_logits(first);
  const std::vector<float> wanted = reference.last_logits(rest);

  (void)system.last_logits(first);
  CHECK(system.evict(100).units.kv_stored + system.status().stored.units > 0);
  const int file = directory.open_swap_file();
  REQUIRE(file >= 0);
  damage(file);
  ::close(file);
  const LogitRows found = system.ask(Evaluate{
      system.session(), {rest.begin(), rest.end()}, {static_cast<std::uint32_t>(rest.size() - 1)}});
  CHECK(found.restore.recomputed);
  CHECK(rms_difference(found.values, wanted) <= kRecomputedRmsMax);

  // And the conversation goes on as if nothing had been.
  (void)system.evict(100);
  const LogitRows next = system.ask(Evaluate{system.session(), {1, 2, 3}, {2}});
  CHECK_FALSE(next.restore.recomputed);
  CHECK(rms_difference(next.values, reference.last_logits(std::vector<Token>{1, 2, 3})) <= 0.1);
}

void flip_a_bit(int file) {
  char byte = 0;
  REQUIRE(::pread(file, &byte, 1, 4321) == 1);
  byte = static_cast<char>(byte ^ 0x10);
  REQUIRE(::pwrite(file, &byte, 1, 4321) == 1);
}
void cut_off(int file) { REQUIRE(::ftruncate(file, 0) == 0); }
void overwrite_the_end(int file) {
  struct stat about{};
  REQUIRE(::fstat(file, &about) == 0);
  const std::vector<char> noise(static_cast<std::size_t>(about.st_size) / 2, '\x7F');
  REQUIRE(::pwrite(file, noise.data(), noise.size(), about.st_size / 256) > 0);
}

}  // namespace

TEST_CASE("a damaged swap file is noticed and the context computed again") {
  for (const Settings& settings : {Settings{"memory.codec=none"}, Settings{"memory.codec=q8"},
                                   Settings{"memory.codec=q8", "policy.paths=memory"},
                                   Settings{"memory.codec=none", "memory.storage_codec=split-zstd"},
                                   Settings{"memory.codec=q8", "memory.storage_codec=q4"},
                                   Settings{"memory.codec=none", "storage.engine=threads"},
                                   Settings{"memory.codec=none", "policy.order=forward-out"}}) {
    INFO(settings.front() << ' ' << settings.back());
    check_damage(settings, flip_a_bit);
    check_damage(settings, cut_off);
    check_damage(settings, overwrite_the_end);
  }
}

TEST_CASE("a Restore of a damaged conversation says so, and the next message is right") {
  const SwapDirectory directory;
  System reference(kModel, {"memory.codec=none"});
  System system(kModel, {"memory.codec=none", "memory.swap_directory=" + directory.path()});
  const auto tokens = made_up_tokens(600, system.model().info().vocabulary);
  (void)reference.last_logits(tokens);
  (void)system.last_logits(tokens);
  (void)system.evict(100);
  const int file = directory.open_swap_file();
  REQUIRE(file >= 0);
  cut_off(file);
  ::close(file);
  CHECK(system.restore().detail.find("computed again") != std::string::npos);
  const std::vector<Token> next{5, 6, 7};
  CHECK(rms_difference(system.last_logits(next), reference.last_logits(next)) <= kRecomputedRmsMax);
}
