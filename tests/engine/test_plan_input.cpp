// A resident model as the planner sees it.
#include <set>

#include "engine/plan_input.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::engine;

namespace {

actors::ModelDescription tiny_model() {
  actors::ModelDescription model;
  model.layers = 3;
  model.kv_heads = 2;
  model.head_dim = 64;
  model.layer.resize(3);
  for (std::uint32_t i = 0; i < 3; ++i) model.layer[i].unit_bytes = (i + 1) * 4096;
  model.head.unit_bytes = 40960;
  return model;
}

}  // namespace

TEST_CASE("every unit once, the last chunk's encoded form by its tokens") {
  const auto model = tiny_model();
  const PlannerInput input = resident_input(model, 600, 1000);
  std::set<actors::UnitId> seen;
  std::uint64_t bytes = 0;
  for (const PlannedUnit& unit : input.units) {
    CHECK(unit.place == UnitPlace::kResident);
    CHECK(seen.insert(unit.unit).second);
    bytes += unit.bytes;
    if (unit.unit.kind != actors::UnitKind::kKv) continue;
    CHECK(unit.bytes == model.chunk_bytes());
    CHECK(unit.compressed_bytes == (unit.unit.chunk < 2 ? 1000 : 1000 * 88 / 256));
  }
  CHECK(seen.size() == 3 + 3 * 3 + 1);
  CHECK(bytes == 4096 * 6 + 40960 + 9 * model.chunk_bytes());
}

TEST_CASE("a context that ends with a chunk, and none") {
  CHECK(resident_input(tiny_model(), 512, 1000).units.size() == 3 + 3 * 2 + 1);
  CHECK(resident_input(tiny_model(), 0, 1000).units.size() == 4);
}
