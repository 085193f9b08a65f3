// The threads run where the configuration says.
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "mzcache/runtime.h"
#include "support/catch.h"
#include "system/system_messages.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

using Cores = std::set<std::uint32_t>;

Cores cores_of(pid_t thread) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  Cores cores;
  if (sched_getaffinity(thread, sizeof mask, &mask) != 0) return cores;
  for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.insert(core);
  }
  return cores;
}

// Name → affinity of this process's threads.
std::map<std::string, Cores> threads() {
  std::map<std::string, Cores> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    found[name] = cores_of(std::stoi(entry.path().filename().string()));
  }
  return found;
}

struct Rule {
  const char* key;
  const char* thread;
  PlacementConfig Config::Placement::* member;
};
constexpr Rule kRules[] = {
    {"placement.storage_reader", "storage-reader", &Config::Placement::storage_reader},
    {"placement.storage_writer", "storage-writer", &Config::Placement::storage_writer},
    {"placement.decompressor", "decompress-0", &Config::Placement::decompressor},
    {"placement.compressor", "compress-0", &Config::Placement::compressor},
    {"placement.allocator", "allocator-0", &Config::Placement::allocator},
    {"placement.prefill", "prefill", &Config::Placement::prefill},
};

}  // namespace

TEST_CASE("each thread's affinity is what the configuration says") {
  const Cores all = cores_of(0);
  REQUIRE_FALSE(all.empty());
  // Every kind on one core, the kinds taking turns over the cores there are.
  Config config;
  std::map<std::string, Cores> expected;
  auto core = all.begin();
  for (const Rule& rule : kRules) {
    (config.placement.*rule.member).core_ids = {*core};
    expected[rule.thread] = {*core};
    if (++core == all.end()) core = all.begin();
  }
  config.placement.decompressor.workers = 2;
  expected["decompress-1"] = expected["decompress-0"];
  Runtime runtime(config);
  const Session session = runtime.load(golden_model("llama-gqa")).open_session();
  (void)ask(runtime, generate(session, some_tokens(8, 320, 1), 2));
  const auto found = threads();
  for (const auto& [name, cores] : expected) {
    CAPTURE(name);
    REQUIRE(found.contains(name));
    CHECK(found.at(name) == cores);
  }
  // Nothing placed the coordinator.
  REQUIRE(found.contains("coordinator"));
  CHECK(found.at("coordinator") == all);
}

TEST_CASE("a core that is not there is an error that names the key") {
  for (const Rule& rule : kRules) {
    CAPTURE(rule.key);
    Config config;
    (config.placement.*rule.member).core_ids = {0, 4000};
    Runtime runtime(config);
    try {
      (void)runtime.load(golden_model("llama-gqa"));
      FAIL("core 4000 was accepted");
    } catch (const Exception& exception) {
      CHECK(exception.error().code == ErrorCode::kBadConfig);
      CHECK(std::string(exception.what()).find(rule.key) != std::string::npos);
      CHECK(std::string(exception.what()).find("4000") != std::string::npos);
    }
    // The same runtime refuses nothing else because of it.
    CHECK_THROWS_AS(runtime.load_report(), Exception);
  }
}
