// This machine for `mzcache simulate`: the profile's rates, and what the device was measured to do.
#pragma once

#include <cstdint>
#include <string>

#include "mzcache/config.h"
#include "report_json.h"
#include "sim/machines.h"

namespace mzcache::tools {

struct ThisMachine {
  sim::MachineModel machine;
  actors::ModelDescription model;
  Json parameters;  // all that was measured, for whoever compares
};

// A GGUF file: its prompt-sized slice is timed with nothing and with `context_tokens` before it,
// which takes some seconds and the model's memory. Throws Exception.
[[nodiscard]] ThisMachine this_machine_with_file(const Config& config, const std::string& file,
                                                 std::uint32_t context_tokens,
                                                 std::uint32_t prompt_tokens);
// A shape that is not at hand: the device computes it as fast as its roofline allows.
[[nodiscard]] ThisMachine this_machine_with_shape(const Config& config,
                                                  const actors::ModelDescription& model,
                                                  std::uint32_t prompt_tokens);

}  // namespace mzcache::tools
