#include "codec/rope_table.h"

#include <algorithm>
#include <cmath>

namespace mzcache::codec {
namespace {

constexpr std::size_t kTablesMax = 4;

std::shared_ptr<const RopeOffsets> make(const actors::RopeDescription& rope, std::uint32_t head_dim,
                                        std::uint32_t tokens) {
  auto table = std::make_shared<RopeOffsets>();
  table->rope = rope;
  table->tokens = tokens;
  table->pairs = std::min(rope.dimensions, head_dim) / 2;
  table->frequencies.resize(table->pairs);
  table->stride = (tokens + 31) / 32 * 32;
  table->cosines.resize(std::size_t{table->pairs} * table->stride);
  table->sines.resize(table->cosines.size());
  for (std::uint32_t i = 0; i < table->pairs; ++i) {
    double frequency = std::pow(double{rope.base}, -2.0 * i / rope.dimensions) * double{rope.scale};
    if (i < rope.factors.size()) frequency /= double{rope.factors[i]};
    table->frequencies[i] = frequency;
    for (std::uint32_t token = 0; token < table->stride; ++token) {
      table->cosines[std::size_t{i} * table->stride + token] = std::cos(token * frequency);
      table->sines[std::size_t{i} * table->stride + token] = std::sin(token * frequency);
    }
  }
  return table;
}

}  // namespace

std::shared_ptr<const RopeOffsets> RopeTables::get(const actors::RopeDescription* description,
                                                   std::uint32_t head_dim,
                                                   std::uint32_t tokens) const {
  static const actors::RopeDescription none;
  const actors::RopeDescription& rope = description == nullptr ? none : *description;
  const std::scoped_lock lock(mutex_);
  for (const auto& table : tables_) {
    if (table->rope == rope && table->tokens == tokens &&
        table->pairs == std::min(rope.dimensions, head_dim) / 2) {
      return table;
    }
  }
  if (tables_.size() == kTablesMax) tables_.erase(tables_.begin());
  tables_.push_back(make(rope, head_dim, tokens));
  return tables_.back();
}

void base_angles(const RopeOffsets& offsets, std::uint32_t first_position, double* cosines,
                 double* sines) noexcept {
  for (std::uint32_t i = 0; i < offsets.pairs; ++i) {
    const double angle = static_cast<double>(first_position) * offsets.frequencies[i];
    cosines[i] = std::cos(angle);
    sines[i] = std::sin(angle);
  }
}

}  // namespace mzcache::codec
