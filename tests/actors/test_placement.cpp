// Core classes from fake sysfs trees; affinity of real threads.
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/placement.h"
#include "actors/threaded_dispatcher.h"
#include "support/catch.h"

namespace mzcache::actors {
namespace {

using Ids = std::vector<std::uint32_t>;

// A sysfs tree of the test's own.
class FakeSystem {
 public:
  FakeSystem() {
    char name[] = "/tmp/mzcache-sysfs-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    root_ = name;
    std::filesystem::create_directories(cpus());
  }
  ~FakeSystem() { std::filesystem::remove_all(root_); }
  FakeSystem(const FakeSystem&) = delete;
  FakeSystem& operator=(const FakeSystem&) = delete;

  void online(const std::string& list) { write(cpus() / "online", list); }
  void capacity(std::uint32_t core, const std::string& value) {
    write(cpus() / ("cpu" + std::to_string(core)) / "cpu_capacity", value);
  }
  void frequency(std::uint32_t core, const std::string& value) {
    write(cpus() / ("cpu" + std::to_string(core)) / "cpufreq/cpuinfo_max_freq", value);
  }
  [[nodiscard]] std::string root() const { return root_.string(); }

 private:
  [[nodiscard]] std::filesystem::path cpus() const { return root_ / "sys/devices/system/cpu"; }
  static void write(const std::filesystem::path& path, const std::string& value) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << value << '\n';
  }
  std::filesystem::path root_;
};

CpuTopology topology_of(const FakeSystem& system) {
  auto topology = read_topology(system.root());
  if (!topology) FAIL(topology.error().message());
  return std::move(topology).value();
}

TEST_CASE("placement: two big and six little cores") {
  FakeSystem system;
  system.online("0-7");
  for (std::uint32_t core = 0; core < 8; ++core) system.capacity(core, core < 6 ? "745" : "1024");
  const CpuTopology topology = topology_of(system);
  CHECK(topology.ids(CoreClass::kBig) == Ids{6, 7});
  CHECK(topology.ids(CoreClass::kLittle) == Ids{0, 1, 2, 3, 4, 5});
  CHECK(topology.ids(CoreClass::kMiddle) == Ids{0, 1, 2, 3, 4, 5});  // the nearest there is
  CHECK(topology.ids(CoreClass::kAny).size() == 8);
  CHECK(topology.cores[7].capacity == 1024);
}

TEST_CASE("placement: one big, five middle and two little cores") {
  FakeSystem system;
  system.online("0-7");
  const char* capacities[] = {"326", "326", "800", "800", "800", "900", "900", "1024"};
  for (std::uint32_t core = 0; core < 8; ++core) system.capacity(core, capacities[core]);
  const CpuTopology topology = topology_of(system);
  CHECK(topology.ids(CoreClass::kBig) == Ids{7});
  CHECK(topology.ids(CoreClass::kMiddle) == Ids{2, 3, 4, 5, 6});  // both kinds between
  CHECK(topology.ids(CoreClass::kLittle) == Ids{0, 1});
}

TEST_CASE("placement: without capacities the maximum frequency decides") {
  FakeSystem system;
  system.online("0-3");
  for (std::uint32_t core = 0; core < 4; ++core) {
    system.frequency(core, core == 2 ? "3200000" : "1800000");
  }
  CHECK(topology_of(system).ids(CoreClass::kBig) == Ids{2});
  CHECK(topology_of(system).ids(CoreClass::kLittle) == Ids{0, 1, 3});
  // Capacities of some cores only are no capacities.
  system.capacity(0, "1024");
  CHECK(topology_of(system).ids(CoreClass::kBig) == Ids{2});
  system.capacity(1, "1024");
  system.capacity(2, "512");
  system.capacity(3, "not a number");
  CHECK(topology_of(system).ids(CoreClass::kBig) == Ids{2});
  system.capacity(3, "512");
  CHECK(topology_of(system).ids(CoreClass::kBig) == Ids{0, 1});
}

TEST_CASE("placement: with neither, or with all alike, every core is any") {
  FakeSystem system;
  system.online("0-2");
  for (const CoreClass wanted :
       {CoreClass::kBig, CoreClass::kMiddle, CoreClass::kLittle, CoreClass::kAny}) {
    CHECK(topology_of(system).ids(wanted) == Ids{0, 1, 2});
  }
  for (std::uint32_t core = 0; core < 3; ++core) system.capacity(core, "1024");
  CHECK(topology_of(system).cores[1].core_class == CoreClass::kAny);
  CHECK(topology_of(system).ids(CoreClass::kBig) == Ids{0, 1, 2});
}

TEST_CASE("placement: cores that are offline are not used") {
  FakeSystem system;
  system.online("0,2-3,6");
  for (std::uint32_t core = 0; core < 8; ++core) system.capacity(core, core < 6 ? "400" : "1024");
  const CpuTopology topology = topology_of(system);
  CHECK(topology.ids(CoreClass::kAny) == Ids{0, 2, 3, 6});
  CHECK(topology.ids(CoreClass::kBig) == Ids{6});
  Placement placement;
  placement[ActorKind::kDecompressor].cores = {7};
  const auto refused = resolve(placement, ActorKind::kDecompressor, topology);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kBadConfig);
  CHECK(refused.error().message() ==
        "placement.decompressor: core 7 is not there (usable: 0, 2, 3, 6)");
}

TEST_CASE("placement: a tree that is not one is refused by name") {
  FakeSystem system;
  const auto missing = read_topology(system.root());
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().message().find(system.root()) != std::string::npos);
  for (const char* list :
       {"", "x", "3-1", "0-", "-3", "0,,1", "0-99999999", "0-4294967295", "1;2"}) {
    system.online(list);
    const auto refused = read_topology(system.root());
    INFO('"' << list << '"');
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kBadFormat);
    CHECK(refused.error().message().find("online") != std::string::npos);
  }
}

TEST_CASE("placement: explicit cores win over the class") {
  FakeSystem system;
  system.online("0-3");
  for (std::uint32_t core = 0; core < 4; ++core) system.capacity(core, core < 2 ? "400" : "1024");
  const CpuTopology topology = topology_of(system);
  Placement placement;
  placement[ActorKind::kPrefill] = {CoreClass::kBig, {1, 3}, 0};
  placement[ActorKind::kAllocator].core_class = CoreClass::kLittle;
  CHECK(resolve(placement, ActorKind::kPrefill, topology).value() == Ids{1, 3});
  CHECK(resolve(placement, ActorKind::kAllocator, topology).value() == Ids{0, 1});
  CHECK(resolve(placement, ActorKind::kCompressor, topology).value() == Ids{0, 1, 2, 3});
}

TEST_CASE("placement: every kind has a key of its own") {
  std::set<std::string_view> keys;
  for (int kind = 0; kind <= static_cast<int>(ActorKind::kPrefill); ++kind) {
    keys.insert(placement_key(static_cast<ActorKind>(kind)));
  }
  CHECK(keys.size() == Placement{}.rules.size());
}

struct Report {};
class Quiet {
 public:
  using Inbox = std::variant<Report>;
  void on(Report&&) noexcept {
    done.store(true);
    done.notify_all();
  }
  std::atomic<bool> done{false};
};

// The cores each thread of this process may use, by the thread's name.
std::map<std::string, Ids> affinities() {
  std::map<std::string, Ids> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream comm(task.path() / "comm");
    std::getline(comm, name);
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (sched_getaffinity(std::stoi(task.path().filename()), sizeof mask, &mask) != 0) continue;
    for (std::uint32_t id = 0; id < CPU_SETSIZE; ++id) {
      if (CPU_ISSET(id, &mask)) found[name].push_back(id);
    }
  }
  return found;
}

TEST_CASE("placement: each named thread may use the cores its key says") {
  const auto topology = this_topology();
  REQUIRE(topology.ok());
  REQUIRE_FALSE(topology->cores.empty());
  const std::uint32_t first = topology->cores.front().id;
  const std::uint32_t last = topology->cores.back().id;
  Placement placement;
  placement[ActorKind::kStorageReader].cores = {last};
  placement[ActorKind::kDecompressor].cores = {first};
  placement[ActorKind::kCompressor].core_class = CoreClass::kBig;
  const std::map<std::string, ActorKind> actors = {{"reader", ActorKind::kStorageReader},
                                                   {"decompress-0", ActorKind::kDecompressor},
                                                   {"decompress-1", ActorKind::kDecompressor},
                                                   {"compress-0", ActorKind::kCompressor},
                                                   {"exactly-fifteen", ActorKind::kPrefill}};
  Timeline timeline;
  ThreadedDispatcher dispatcher(placement, *topology, timeline);
  std::vector<Ref<Quiet>> refs;
  for (const auto& [name, kind] : actors) refs.push_back(dispatcher.spawn<Quiet>({kind, name}));
  dispatcher.start();
  for (auto& ref : refs) {
    ref.port<Report>().send({});
    ref.actor->done.wait(false);
  }
  const auto seen = affinities();
  for (const auto& [name, kind] : actors) {
    INFO(name);
    REQUIRE(seen.count(name) == 1);
    CHECK(seen.at(name) == resolve(placement, kind, *topology).value());
  }
}

}  // namespace
}  // namespace mzcache::actors
