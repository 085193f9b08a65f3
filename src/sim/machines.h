// Machines and models for `mzcache simulate`: what is known of real devices, as numbers for the
// simulated ones. Sources and what was fitted: docs/simulation.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "actors/model_description.h"
#include "mzcache/errors.h"
#include "sim/sim_world.h"

namespace mzcache::sim {

struct MachineModel {
  std::string name;
  MachineOptions options;
  engine::WorkerCounts workers;
  engine::PlannerOptions policy;  // what a policy of the evaluation leaves as it is
};
[[nodiscard]] const std::vector<MachineModel>& machines();

// Sizes of a model of a real shape, FP16 weights.
[[nodiscard]] Result<actors::ModelDescription> model_of_shape(std::string_view name);
[[nodiscard]] std::vector<std::string> shape_names();

}  // namespace mzcache::sim
