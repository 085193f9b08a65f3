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
  const PlannerInput input = resident_input(model, 600, 1000, 0);
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
  CHECK(resident_input(tiny_model(), 512, 1000, 0).units.size() == 3 + 3 * 2 + 1);
  CHECK(resident_input(tiny_model(), 0, 1000, 0).units.size() == 4);
}

TEST_CASE("chunks behind a window are no units") {
  actors::ModelDescription model = tiny_model();
  model.layer[0].window = 300;
  model.layer[2].window = 10;
  // The token at 1000 sees from 701 on (chunk 2), from 0 on, and from 991 on (chunk 3).
  CHECK(resident_input(model, 1000, 1000, 0).units.size() == 3 + (2 + 4 + 1) + 1);
  // What is no unit for the plan lies there all the same where it is not freed: the last layer's
  // three chunks, then the first one's two.
  const auto unseen = unseen_chunks(model, 1000);
  REQUIRE(unseen.size() == 5);
  CHECK(unseen.front() == actors::kv_unit(kPlannedContext, 2, 0));
  CHECK(unseen.back() == actors::kv_unit(kPlannedContext, 0, 1));
  CHECK(unseen_chunks(tiny_model(), 1000).empty());
}

TEST_CASE("chunks have the size that the codec for storage leaves, where it leaves less") {
  const actors::ModelDescription model = tiny_model();
  const std::uint64_t stored = model.chunk_bytes() / 4;
  const PlannerInput input = resident_input(model, 600, 1000, stored);
  for (const PlannedUnit& unit : input.units) {
    if (unit.unit.kind != actors::UnitKind::kKv) continue;
    const std::uint64_t tokens = unit.unit.chunk < 2 ? model.chunk_tokens : 600 % 256;
    CHECK(unit.stored_bytes == stored * tokens / model.chunk_tokens);
    CHECK(unit.bytes_when_stored() == unit.stored_bytes);
  }
  for (const std::uint64_t none :
       {std::uint64_t{0}, model.chunk_bytes(), model.chunk_bytes() + 32}) {
    CHECK(planned_stored_bytes(model, none, 256) == 0);
  }
  CHECK(planned_stored_bytes(model, 1, 1) == 1);
}
