// The angles of a chunk's keys, for codecs that undo the rotation. Angles of the offsets within a
// chunk are made once per model, in double; those of the chunk's first position turn them further.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "actors/ports.h"

namespace mzcache::codec {

struct RopeOffsets {
  actors::RopeDescription rope;
  std::uint32_t tokens = 0;
  std::uint32_t pairs = 0;
  std::vector<double> frequencies;
  std::uint32_t stride = 0;            // tokens in whole rows of 32
  std::vector<double> cosines, sines;  // [pair][stride]
};

// Thread-safe. Keeps the last description's table: a model has one or two.
class RopeTables {
 public:
  // Null: nothing is rotated.
  [[nodiscard]] std::shared_ptr<const RopeOffsets> get(const actors::RopeDescription* rope,
                                                       std::uint32_t head_dim,
                                                       std::uint32_t tokens) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const RopeOffsets>> tables_;
};

// cos and sin of the first position's angles, per pair.
void base_angles(const RopeOffsets& offsets, std::uint32_t first_position, double* cosines,
                 double* sines) noexcept;

}  // namespace mzcache::codec
