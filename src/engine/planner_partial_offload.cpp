// The baseline the paper compares with: whole layers leave, weights and KV alike, the last first;
// KV goes to storage as it is. No second restore path, no finer grain.
#include <algorithm>
#include <map>

#include "engine/planner.h"

namespace mzcache::engine {
namespace {

class PartialOffloadPlanner final : public EvictionPlanner {
 public:
  [[nodiscard]] EvictionPlan plan(const PlannerInput& input, std::uint64_t bytes) const override {
    std::map<std::uint32_t, std::vector<const PlannedUnit*>> layers;
    EvictionPlan plan;
    double owed_s = 0;
    const auto owe = [&](const PlannedUnit& unit) {
      owed_s += static_cast<double>(unit.bytes) / (unit.unit.kind == actors::UnitKind::kKv
                                                       ? input.profile.swap_read_bytes_per_s
                                                       : input.profile.model_read_bytes_per_s);
    };
    for (const PlannedUnit& unit : input.units) {
      if (unit.place == UnitPlace::kResident) {
        layers[unit.unit.layer].push_back(&unit);
      } else {
        owe(unit);
      }
    }
    std::uint64_t storage_free = input.storage_free;
    for (auto layer = layers.rbegin(); layer != layers.rend() && plan.freed_bytes < bytes;
         ++layer) {
      for (const PlannedUnit* unit : layer->second) {
        const bool kv = unit->unit.kind == actors::UnitKind::kKv;
        if (kv && !unit->stored_clean) {
          if (unit->bytes > storage_free) continue;
          storage_free -= unit->bytes;
        }
        plan.steps.push_back({unit->unit, UnitPlace::kResident,
                              kv ? UnitPlace::kStored : UnitPlace::kDropped, EvictionStage::kWOnly,
                              unit->bytes});
        plan.freed_bytes += unit->bytes;
        owe(*unit);
      }
    }
    plan.restore_storage_s = owed_s;
    return plan;
  }
};

}  // namespace

std::unique_ptr<EvictionPlanner> make_partial_offload_planner() {
  return std::make_unique<PartialOffloadPlanner>();
}

}  // namespace mzcache::engine
