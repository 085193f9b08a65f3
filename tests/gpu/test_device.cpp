#include "gpu/device.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::gpu;

TEST_CASE("open device") {
  auto device = Device::open({});
  REQUIRE(device);
  CHECK((*device)->info().mode == MemoryMode::kHostMapping);
}
