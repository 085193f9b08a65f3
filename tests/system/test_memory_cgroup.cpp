// The second witness: what the kernel charges to a memory cgroup (v1 or v2) that holds a child of
// this process and nothing else. Needs root.
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "mzcache/runtime.h"
#include "support/catch.h"
#include "support/model_path.h"
#include "system/memory_probe.h"
#include "system/system_messages.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

// The parent directory for groups of ours, and the file that tells the usage; empty: none here.
struct Hierarchy {
  std::filesystem::path root;
  const char* usage = nullptr;
};

Hierarchy find_hierarchy() {
  const std::filesystem::path v1 = "/sys/fs/cgroup/memory";
  if (std::filesystem::exists(v1 / "memory.usage_in_bytes")) return {v1, "memory.usage_in_bytes"};
  for (const char* v2 : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    std::ifstream controllers(std::filesystem::path(v2) / "cgroup.subtree_control");
    for (std::string name; controllers >> name;) {
      if (name == "memory") return {v2, "memory.current"};
    }
  }
  return {};
}

// A cgroup for as long as it lives; its processes must have ended before.
class MemoryGroup {
 public:
  explicit MemoryGroup(const Hierarchy& hierarchy)
      : directory_(hierarchy.root / ("mzcache-test-" + std::to_string(getpid()))),
        usage_(hierarchy.usage) {
    made_ = std::filesystem::create_directory(directory_);
  }
  ~MemoryGroup() {
    std::error_code ignored;
    std::filesystem::remove(directory_, ignored);
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  [[nodiscard]] bool made() const { return made_; }
  [[nodiscard]] bool enter() const {
    std::ofstream processes(directory_ / "cgroup.procs");
    processes << getpid() << std::flush;
    return processes.good();
  }
  [[nodiscard]] std::uint64_t usage() const {
    std::uint64_t bytes = 0;
    std::ifstream(directory_ / usage_) >> bytes;
    return bytes;
  }

 private:
  std::filesystem::path directory_;
  const char* usage_;
  bool made_ = false;
};

// How far the group's usage fell, at best within a second.
std::uint64_t fall_within_a_second(const MemoryGroup& group, std::uint64_t before,
                                   std::uint64_t wanted) {
  std::uint64_t fall = 0;
  for (int i = 0; i < 20 && fall < wanted; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::uint64_t usage = group.usage();
    fall = std::max(fall, before > usage ? before - usage : 0);
  }
  return fall;
}

// In the child: 0 where the usage fell as it must after every eviction of at least 32 MiB.
int evict_under_watch(const MemoryGroup& group, const char* codec, bool huge_pages) {
  Config config;
  config.memory.codec = codec;
  config.memory.huge_pages = huge_pages;
  Runtime runtime(config);
  const Session session = runtime.load(model_path()).open_session();
  (void)ask(runtime, evaluate(session, some_tokens(2100, 49000, 11)));
  (void)ask(runtime, generate(session, some_tokens(3, 49000, 12), 2));
  int failures = 0;
  struct Step {
    bool restore;
    double percent;
  };
  for (const Step step : {Step{true, 25},
                          {true, 50},
                          {true, 75},
                          {true, 100},
                          {true, 40},
                          {false, 40},
                          {false, 100}}) {
    if (step.restore) (void)ask(runtime, Restore{});
    const std::uint64_t before = group.usage();
    const EvictReport report = ask(runtime, evict_percent(step.percent));
    const std::uint64_t wanted = report.freed_bytes / 10 * 9;
    const std::uint64_t fall = fall_within_a_second(group, before, wanted);
    if (report.freed_bytes < 32 * kMiB) continue;
    std::printf("%s, huge pages %d, %.0f %%: freed %.1f MiB, usage fell by %.1f MiB\n", codec,
                huge_pages ? 1 : 0, step.percent, static_cast<double>(report.freed_bytes) / kMiB,
                static_cast<double>(fall) / kMiB);
    if (fall < wanted) ++failures;
  }
  std::fflush(stdout);
  return failures;
}

}  // namespace

TEST_CASE("the usage of the process's memory cgroup falls by what an eviction says") {
  const Hierarchy hierarchy = find_hierarchy();
  if (hierarchy.usage == nullptr) {
    WARN("no memory cgroup hierarchy on this machine");
    return;
  }
  for (const char* codec : {"q8", "none"}) {
    for (const bool huge_pages : {true, false}) {
      CAPTURE(codec, huge_pages);
      const MemoryGroup group(hierarchy);
      REQUIRE(group.made());
      // The child starts the runtime itself: threads do not survive a fork.
      std::fflush(stdout);
      const pid_t child = fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        int status = 100;
        try {
          if (group.enter()) status = evict_under_watch(group, codec, huge_pages);
        } catch (const std::exception& failure) {
          std::printf("%s\n", failure.what());
          std::fflush(stdout);
        }
        _exit(status);
      }
      int status = 0;
      REQUIRE(waitpid(child, &status, 0) == child);
      REQUIRE(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 0);
    }
  }
}
