#include <cstring>
#include <vector>

#include "gpu/unit_memory.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::gpu;
using actors::UnitId;

TEST_CASE("chunks come zeroed and leave entirely") {
  auto device = Device::open({});
  REQUIRE(device);
  auto memory = UnitMemory::create(**device, {{4096, 8192}, 4096, 4096 * 3}, {});
  REQUIRE(memory);
  REQUIRE((*memory)->open_context(0, 100));
  std::vector<UnitId> run;
  for (std::uint32_t i = 0; i < 100; ++i) run.push_back(actors::kv_unit(0, 1, i));
  const auto before = (*memory)->process_bytes();
  REQUIRE((*memory)->populate(run));
  std::memset((*memory)->bytes(run[99]).data(), 7, 4096 * 3);
  CHECK((*memory)->process_bytes() >= before + 1200000);
  (*memory)->release(run);
  CHECK((*memory)->process_bytes() <= before + 30000);
  REQUIRE((*memory)->populate(std::span(run).subspan(99)));
  CHECK((*memory)->bytes(run[99])[0] == std::byte{0});
}
