// Rotation angles of a slice, made on the host in double precision: the same on every device, and
// once per slice instead of once per head and layer.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/ports.h"

namespace mzcache::gpu {

// [token][dimensions/2] pairs (cos, sin) for positions from first_position on.
void fill_rope_angles(const actors::RopeDescription& rope, std::uint32_t first_position,
                      std::uint32_t tokens, std::vector<float>& out);

}  // namespace mzcache::gpu
