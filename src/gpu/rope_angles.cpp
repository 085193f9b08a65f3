#include "gpu/rope_angles.h"

#include <cmath>

namespace mzcache::gpu {

void fill_rope_angles(const actors::RopeDescription& rope, std::uint32_t first_position,
                      std::uint32_t tokens, std::vector<float>& out) {
  const std::uint32_t pairs = rope.dimensions / 2;
  std::vector<double> frequencies(pairs);
  for (std::uint32_t i = 0; i < pairs; ++i) {
    frequencies[i] = std::pow(double{rope.base}, -2.0 * i / rope.dimensions) * double{rope.scale};
    if (!rope.factors.empty()) frequencies[i] /= double{rope.factors[i]};
  }
  const double magnitude{rope.magnitude};
  out.resize(std::size_t{tokens} * pairs * 2);
  float* to = out.data();
  for (std::uint32_t token = 0; token < tokens; ++token) {
    const auto position = static_cast<double>(std::uint64_t{first_position} + token);
    for (std::uint32_t i = 0; i < pairs; ++i) {
      const double angle = position * frequencies[i];
      *to++ = static_cast<float>(std::cos(angle) * magnitude);
      *to++ = static_cast<float>(std::sin(angle) * magnitude);
    }
  }
}

}  // namespace mzcache::gpu
