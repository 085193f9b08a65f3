// What every kind of unit memory promises.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "gpu/program_build.h"
#include "gpu/unit_memory.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::gpu;
using actors::UnitId;

namespace {

constexpr std::uint64_t kChunk = 4096 * 90;  // no divisor of a huge page
const UnitSizes kSizes{{4096 * 300, 4096 * 1000}, 4096 * 77, kChunk};

struct World {
  std::unique_ptr<Device> device;
  std::unique_ptr<UnitMemory> memory;
};

DeviceOptions with_memory(const char* mode) {
  DeviceOptions options;
  options.force_memory = mode;
  return options;
}

// No device where it lacks the mode.
World world_of(const char* mode, UnitMemory::Options options = {}) {
  World world;
  auto device = Device::open(with_memory(mode));
  if (!device) {
    REQUIRE(device.error().code == ErrorCode::kUnsupported);
    return world;
  }
  world.device = std::move(*device);
  auto memory = UnitMemory::create(*world.device, kSizes, options);
  REQUIRE(memory);
  world.memory = std::move(*memory);
  return world;
}

std::vector<UnitId> chunks(std::uint32_t layer, std::uint32_t first, std::uint32_t count) {
  std::vector<UnitId> run;
  for (std::uint32_t i = 0; i < count; ++i) run.push_back(actors::kv_unit(0, layer, first + i));
  return run;
}

bool all_equal(std::span<const std::byte> bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == value; });
}

// Adds one to every word of the unit, on the device.
void add_one(World& world, UnitId unit) {
  static const std::vector<KernelSource> kSources = {{"add.cl", R"CL(
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void add_one(global uint* base, ulong offset, ulong bytes) {
  global uint* words = base + offset / 4;
  for (ulong i = 0; i < bytes / 4; ++i) words[i] += 1;
}
)CL"}};
  auto program = build_from_source(*world.device, kSources,
                                   build_options(*world.device, ProgramSet::kPortable, {}));
  REQUIRE(program);
  cl::Kernel kernel(*program, "add_one");
  const KernelAddress address = world.memory->address(unit);
  if (address.buffer != nullptr) {
    CHECK(address.pointer == nullptr);
    REQUIRE(clSetKernelArg(kernel(), 0, sizeof(cl_mem), &address.buffer) == CL_SUCCESS);
  } else {
    REQUIRE(address.pointer != nullptr);
    REQUIRE(clSetKernelArgSVMPointer(kernel(), 0, address.pointer) == CL_SUCCESS);
  }
  REQUIRE(kernel.setArg(1, cl_ulong{address.offset}) == CL_SUCCESS);
  REQUIRE(kernel.setArg(2, cl_ulong{world.memory->bytes(unit).size()}) == CL_SUCCESS);
  REQUIRE(world.device->queue().enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(1),
                                                     cl::NDRange(1)) == CL_SUCCESS);
  REQUIRE(world.device->queue().finish() == CL_SUCCESS);
}

}  // namespace

TEST_CASE("host and device see the same unit in every memory mode", "[oclgrind]") {
  const char* mode = GENERATE("host-mapping", "fine-svm", "coarse-svm", "buffers");
  CAPTURE(mode);
  World world = world_of(mode);
  if (!world.memory) return;
  UnitMemory& memory = *world.memory;
  REQUIRE(memory.open_context(0, 30));
  const auto run = chunks(1, 7, 9);  // crosses a slab
  REQUIRE(memory.populate(run));
  std::vector<UnitId> units = run;
  for (const UnitId unit : {actors::weights_unit(1), actors::head_unit(2)}) {
    REQUIRE(memory.populate({&unit, 1}));
    units.push_back(unit);
  }
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto bytes = memory.bytes(units[i]);
    REQUIRE(reinterpret_cast<std::uintptr_t>(bytes.data()) % 4096 == 0);
    REQUIRE(all_equal(bytes, std::byte{0}));
    std::memset(bytes.data(), static_cast<int>(i), bytes.size());
    memory.end_host_access(units[i]);
  }
  for (const UnitId unit : {units[0], units[5], units[9], units[10]}) add_one(world, unit);
  for (std::size_t i = 0; i < units.size(); ++i) {
    memory.begin_host_access(units[i]);
    const auto bytes = memory.bytes(units[i]);
    std::uint32_t expected = 0;
    std::memset(&expected, static_cast<int>(i), sizeof expected);
    if (i == 0 || i == 5 || i == 9 || i == 10) ++expected;
    std::vector<std::uint32_t> words(bytes.size() / 4, expected);
    CHECK(std::memcmp(bytes.data(), words.data(), bytes.size()) == 0);
    memory.end_host_access(units[i]);
  }
}

TEST_CASE("units are populated once, come back zeroed and leave their neighbours alone",
          "[oclgrind]") {
  const char* mode = GENERATE("host-mapping", "fine-svm", "coarse-svm", "buffers");
  CAPTURE(mode);
  World world = world_of(mode);
  if (!world.memory) return;
  UnitMemory& memory = *world.memory;
  REQUIRE(memory.open_context(0, 30));
  CHECK(memory.open_context(0, 3).error().code == ErrorCode::kBadArgument);
  CHECK(memory.open_context(1, 0).error().code == ErrorCode::kBadArgument);
  const auto run = chunks(0, 0, 30);
  REQUIRE(memory.populate(run));
  CHECK(memory.populate(std::span(run).first(1)).error().code == ErrorCode::kInternal);
  std::byte* first = memory.bytes(run[0]).data();
  for (const UnitId unit : run) std::memset(memory.bytes(unit).data(), 5, kChunk);

  memory.release(std::span(run).subspan(3, 2));
  memory.release(std::span(run).subspan(3, 2));  // again: nothing to do
  CHECK(memory.bytes(run[0]).data() == first);
  REQUIRE(memory.populate(std::span(run).subspan(3, 2)));
  for (std::size_t i = 0; i < run.size(); ++i) {
    CAPTURE(i);
    const bool again = i == 3 || i == 4;
    memory.begin_host_access(run[i]);
    CHECK(all_equal(memory.bytes(run[i]), again ? std::byte{0} : std::byte{5}));
  }
  memory.release(run);
  REQUIRE(memory.populate(run));
  for (const UnitId unit : run) CHECK(all_equal(memory.bytes(unit), std::byte{0}));
  memory.close_context(0);
  CHECK(memory.bytes(run[0]).empty());
  memory.close_context(0);
  REQUIRE(memory.open_context(0, 4));
}

TEST_CASE("what is no unit or no run is refused", "[oclgrind]") {
  const char* mode = GENERATE("host-mapping", "fine-svm", "buffers");
  CAPTURE(mode);
  World world = world_of(mode);
  if (!world.memory) return;
  UnitMemory& memory = *world.memory;
  REQUIRE(memory.open_context(3, 4));
  for (const UnitId unit : {actors::kv_unit(3, 0, 4), actors::kv_unit(3, 2, 0),
                            actors::kv_unit(2, 0, 0), actors::weights_unit(9)}) {
    CHECK(memory.populate({&unit, 1}).error().code == ErrorCode::kInternal);
    CHECK(memory.bytes(unit).empty());
    memory.release({&unit, 1});
  }
  const std::vector<UnitId> gap = {actors::kv_unit(3, 0, 0), actors::kv_unit(3, 0, 2)};
  CHECK(memory.populate(gap).error().code == ErrorCode::kInternal);
  const std::vector<UnitId> backwards = {actors::kv_unit(3, 0, 1), actors::kv_unit(3, 0, 0)};
  CHECK(memory.populate(backwards).error().code == ErrorCode::kInternal);
  CHECK(memory.populate({}).ok());
}

TEST_CASE("sizes must be whole blocks", "[oclgrind]") {
  auto device = Device::open({});
  REQUIRE(device);
  const auto code = [&](const UnitSizes& sizes) {
    auto memory = UnitMemory::create(**device, sizes, {});
    return memory ? ErrorCode::kOk : memory.error().code;
  };
  CHECK(code({{4096}, 4096, 4096}) == ErrorCode::kOk);
  CHECK(code({{}, 4096, 4096}) == ErrorCode::kBadArgument);
  CHECK(code({{4097}, 4096, 4096}) == ErrorCode::kBadArgument);
  CHECK(code({{4096}, 0, 4096}) == ErrorCode::kBadArgument);
  CHECK(code({{4096}, 4096, 100}) == ErrorCode::kBadArgument);
}

TEST_CASE("an allocation larger than the device allows is refused by name", "[oclgrind]") {
  auto device = Device::open(with_memory("buffers"));
  REQUIRE(device);
  const std::uint64_t limit = (*device)->info().allocation_bytes_max;
  auto memory = UnitMemory::create(**device, {{4096}, limit / 4096 * 4096 + 4096, 4096}, {});
  REQUIRE_FALSE(memory);
  CHECK(memory.error().code == ErrorCode::kUnsupported);
  CHECK(memory.error().message().find("output head") != std::string::npos);
}

TEST_CASE("a populate that fails leaves nothing behind", "[oclgrind]") {
  const char* mode = GENERATE("host-mapping", "fine-svm", "coarse-svm", "buffers");
  const int fail_at = GENERATE(1, 2, 3);
  CAPTURE(mode, fail_at);
  int pieces = 0;
  bool armed = false;
  UnitMemory::Options options;
  options.inject_failure = [&](std::uint64_t) { return armed && ++pieces == fail_at ? ENOMEM : 0; };
  World world = world_of(mode, options);
  if (!world.memory) return;
  UnitMemory& memory = *world.memory;
  REQUIRE(memory.open_context(0, 60));
  const auto run = chunks(1, 1, 50);  // small pages, huge pages, small pages; several slabs
  armed = true;
  auto failed = memory.populate(run);
  armed = false;
  if (pieces < fail_at) {
    CHECK(failed.ok());
    return;
  }
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().code == ErrorCode::kNoMemory);
  REQUIRE(memory.populate(run));  // each unit was unpopulated
  for (const UnitId unit : run) CHECK(all_equal(memory.bytes(unit), std::byte{0}));
}

TEST_CASE("threads work on different units at once") {
  const char* mode = GENERATE("host-mapping", "fine-svm", "coarse-svm", "buffers");
  CAPTURE(mode);
  World world = world_of(mode);
  if (!world.memory) return;
  UnitMemory& memory = *world.memory;
  REQUIRE(memory.open_context(0, 40));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int round = 0; round < 30; ++round) {
        const auto first = static_cast<std::uint32_t>(t * 10 + random() % 5);
        const auto run = chunks(0, first, static_cast<std::uint32_t>(1 + random() % 5));
        if (!memory.populate(run)) ++wrong;
        for (const UnitId unit : run) {
          const auto bytes = memory.bytes(unit);
          if (!all_equal(bytes, std::byte{0})) ++wrong;
          std::memset(bytes.data(), t + 1, bytes.size());
        }
        for (const UnitId unit : run) {
          if (!all_equal(memory.bytes(unit), static_cast<std::byte>(t + 1))) ++wrong;
        }
        memory.release(run);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}
