#include <sched.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <thread>

#include "gpu/device.h"
#include "gpu/device_discovery.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::gpu;

namespace {

FoundDevice synthetic(const char* name, bool gpu, bool cpu, bool svm) {
  FoundDevice found;
  found.info.name = name;
  found.info.platform = "Synthetic";
  found.gpu = gpu;
  found.info.cpu = cpu;
  found.svm_coarse = svm;
  return found;
}

DeviceOptions named(std::string name) {
  DeviceOptions options;
  options.name = std::move(name);
  return options;
}

DeviceOptions with_kernels(std::string kernels) {
  DeviceOptions options;
  options.kernels = std::move(kernels);
  return options;
}

DeviceOptions with_pinning(std::string pin_workers) {
  DeviceOptions options;
  options.pin_workers = std::move(pin_workers);
  return options;
}

DeviceOptions with_memory(std::string mode) {
  DeviceOptions options;
  options.force_memory = std::move(mode);
  return options;
}

ErrorCode open_error(const DeviceOptions& options) {
  auto device = Device::open(options);
  return device ? ErrorCode::kOk : device.error().code;
}

}  // namespace

TEST_CASE("a GPU with shared memory is the best device, a processor the last resort") {
  const std::vector<FoundDevice> devices = {
      synthetic("Big CPU", false, true, true), synthetic("Old GPU", true, false, false),
      synthetic("New GPU", true, false, true), synthetic("Newer GPU", true, false, true)};
  CHECK(choose_device(devices, "")->info.name == "New GPU");
  CHECK(choose_device(devices, "oLD")->info.name == "Old GPU");
  CHECK(choose_device(devices, "cpu")->info.name == "Big CPU");
  CHECK(choose_device(devices, "synthetic")->info.name == "New GPU");
  CHECK(choose_device(devices, "absent") == nullptr);
  CHECK(choose_device({}, "") == nullptr);
  const std::vector<FoundDevice> alike = {synthetic("GPU Pro", true, false, true),
                                          synthetic("GPU", true, false, true)};
  CHECK(choose_device(alike, "gpu")->info.name == "GPU");
  CHECK(choose_device(alike, "gp")->info.name == "GPU Pro");
  const std::vector<FoundDevice> weak = {devices[0], devices[1]};
  CHECK(choose_device(weak, "")->info.name == "Old GPU");
}

TEST_CASE("memory modes have names that parse") {
  for (const MemoryMode mode : {MemoryMode::kHostMapping, MemoryMode::kFineSvm,
                                MemoryMode::kCoarseSvm, MemoryMode::kBuffers}) {
    CHECK(parse_memory_mode(memory_mode_name(mode)) == mode);
  }
  CHECK_FALSE(parse_memory_mode("host"));
  CHECK_FALSE(parse_memory_mode(""));
}

TEST_CASE("every device is listed with what it can do", "[oclgrind]") {
  const auto devices = list_devices();
  REQUIRE_FALSE(devices.empty());
  for (const DeviceInfo& info : devices) {
    CAPTURE(info.name);
    CHECK_FALSE(info.name.empty());
    CHECK_FALSE(info.platform.empty());
    CHECK(info.version.rfind("OpenCL ", 0) == 0);
    CHECK_FALSE(info.svm.empty());
    CHECK(info.compute_units > 0);
    CHECK(info.float_width > 0);
    CHECK(info.allocation_bytes_max > 0);
    CHECK((info.kernels == "portable" || (info.kernels == "cpu" && info.cpu)));
  }
}

TEST_CASE("a device opens by part of its name in any case") {
  const auto devices = list_devices();
  REQUIRE_FALSE(devices.empty());
  std::string name = devices[0].name;
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  auto device = Device::open(named(name));
  REQUIRE(device);
  CHECK((*device)->info().name == devices[0].name);
  CHECK((*device)->queue().getInfo<CL_QUEUE_PROPERTIES>() == CL_QUEUE_PROFILING_ENABLE);
}

TEST_CASE("a processor that takes plain pointers gets our own mappings") {
  auto device = Device::open({});
  REQUIRE(device);
  const DeviceInfo& info = (*device)->info();
  CAPTURE(info.name, info.svm);
  // PoCL passes the test by trial, whatever it advertises.
  if (info.platform == "Portable Computing Language") {
    CHECK(info.mode == MemoryMode::kHostMapping);
    CHECK((*device)->at_least(2, 0));
  }
  CHECK((*device)->at_least(1, 2));
  CHECK_FALSE((*device)->at_least(9, 0));
}

TEST_CASE("options that name nothing are refused, with what there is", "[oclgrind]") {
  CHECK(open_error(named("no such device")) == ErrorCode::kNotFound);
  auto absent = Device::open(named("no such device"));
  CHECK(absent.error().message().find(list_devices()[0].name) != std::string::npos);
  if (list_devices()[0].kernels == "cpu") {
    CHECK(open_error(with_kernels("cpu")) == ErrorCode::kOk);
  } else {
    CHECK(open_error(with_kernels("cpu")) == ErrorCode::kUnsupported);
  }
  // The set reaches units through plain pointers.
  DeviceOptions apart = with_kernels("cpu");
  apart.force_memory = "buffers";
  CHECK(open_error(apart) == ErrorCode::kUnsupported);
  CHECK(open_error(with_kernels("fast")) == ErrorCode::kBadConfig);
  CHECK(open_error(with_pinning("maybe")) == ErrorCode::kBadConfig);
  CHECK(open_error(with_memory("somewhere")) == ErrorCode::kBadArgument);
  CHECK(open_error(with_kernels("portable")) == ErrorCode::kOk);
}

TEST_CASE("a notice is said once") {
  auto device = Device::open(with_memory("buffers"));
  REQUIRE(device);
  const std::size_t before = (*device)->notices().size();
  (*device)->add_notice("the same");
  (*device)->add_notice("the same");
  CHECK((*device)->notices().size() == before + 1);
}

TEST_CASE("workers are pinned only where CPUs 0 to n-1 are all allowed") {
  CHECK(may_use_first_cpus({0, 1}, 2));
  CHECK(may_use_first_cpus({0}, 1));
  CHECK_FALSE(may_use_first_cpus({0}, 2));
  CHECK_FALSE(may_use_first_cpus({0, 2}, 2));
  CHECK_FALSE(may_use_first_cpus({1, 2}, 2));
  CHECK_FALSE(may_use_first_cpus({}, 0));
}

TEST_CASE("pinning is asked of the driver in its environment variable") {
  const char* before = std::getenv("POCL_AFFINITY");
  const std::string saved = before == nullptr ? "" : before;
  unsetenv("POCL_AFFINITY");
  REQUIRE(prepare_worker_affinity("auto"));
  REQUIRE(prepare_worker_affinity("false"));
  CHECK(std::getenv("POCL_AFFINITY") == nullptr);

  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  if (CPU_COUNT(&all) == sysconf(_SC_NPROCESSORS_ONLN) && CPU_ISSET(0, &all)) {
    auto pinned = prepare_worker_affinity("true");
    REQUIRE(pinned);
    if (pinned->empty()) {
      CHECK(std::string(std::getenv("POCL_AFFINITY")) == "1");
    } else {
      CHECK(std::getenv("POCL_AFFINITY") == nullptr);
    }
  }
  // The user's own choice stands.
  setenv("POCL_AFFINITY", "0", 1);
  CHECK(prepare_worker_affinity("true").value().empty());
  CHECK(std::string(std::getenv("POCL_AFFINITY")) == "0");

  unsetenv("POCL_AFFINITY");
  if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu) {
      if (CPU_ISSET(cpu, &all)) {
        CPU_SET(cpu, &one);
        break;
      }
    }
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    auto refused = prepare_worker_affinity("true");
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
    REQUIRE(refused);
    CHECK(refused->find("pin_workers") != std::string::npos);
    CHECK(std::getenv("POCL_AFFINITY") == nullptr);
  }
  if (before != nullptr) setenv("POCL_AFFINITY", saved.c_str(), 1);
}

TEST_CASE("a pinned thread opens the device with the affinity of the process") {
  cpu_set_t leader;
  REQUIRE(sched_getaffinity(getpid(), sizeof leader, &leader) == 0);
  bool inside = false;
  bool after = false;
  std::thread([&] {
    cpu_set_t one;
    cpu_set_t now;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &leader)) {
        CPU_SET(cpu, &one);
        break;
      }
    }
    if (sched_setaffinity(0, sizeof one, &one) != 0) return;
    {
      const UnpinnedScope unpinned;
      inside = sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &leader);
    }
    after = sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &one);
  }).join();
  CHECK(inside);
  CHECK(after);
}
