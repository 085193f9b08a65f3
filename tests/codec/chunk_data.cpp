#include "codec/chunk_data.h"

#include <cmath>
#include <cstring>

#include "codec/half.h"

namespace mzcache::codec::test {
namespace {

std::uint16_t finite_bits(std::mt19937_64& random) {
  for (;;) {
    const auto bits = static_cast<std::uint16_t>(random());
    if ((bits & 0x7C00U) != 0x7C00U) return bits;
  }
}

std::uint16_t one_value(Data data, std::size_t channel, int scale, std::uint16_t base,
                        std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  switch (data) {
    case Data::kNormal:
      return float_to_half(normal(random));
    case Data::kRealLooking: {
      const float offset = std::sin(static_cast<float>(channel) * 12.9898F) * 3.0F;
      const float width = channel % 29 == 3 ? 20.0F : 0.2F + std::fabs(offset) * 0.3F;
      return float_to_half((channel % 7 == 0 ? 0.0F : offset) + width * normal(random));
    }
    case Data::kBits:
      return finite_bits(random);
    case Data::kEqual:
      return base;
    case Data::kZeros:
      return static_cast<std::uint16_t>((random() & 1U) << 15);
    case Data::kHuge:
      return static_cast<std::uint16_t>(((random() & 1U) << 15) | (0x7BFFU - random() % 4));
    case Data::kDenormal:
      return static_cast<std::uint16_t>(((random() & 1U) << 15) | random() % 0x400);
    case Data::kTight:
      return static_cast<std::uint16_t>(0x6000U + (base & 0x3FFU) + random() % 9);
    case Data::kTies:
      return float_to_half(std::ldexp(static_cast<float>(random() % 511) - 255.0F, scale));
    case Data::kOneSided:
      return random() % 64 == 0 ? float_to_half(-1000.0F)
                                : static_cast<std::uint16_t>(random() % 0x800);
  }
  return 0;
}

}  // namespace

std::vector<std::uint16_t> make_values(Data data, std::size_t count, std::size_t channels,
                                       std::mt19937_64& random) {
  std::vector<std::uint16_t> values(count);
  const int scale = static_cast<int>(random() % 20) - 16;
  const std::uint16_t base = finite_bits(random);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = one_value(data, i % channels, scale, base, random);
  }
  return values;
}

Chunk make_chunk(const actors::ChunkLayout& layout, std::uint32_t token_count, Data data,
                 std::mt19937_64& random) {
  Chunk chunk{layout, token_count, std::vector<std::byte>(layout.bytes())};
  const auto values =
      make_values(data, layout.bytes() / 2, std::size_t{layout.kv_heads} * layout.head_dim, random);
  std::memcpy(chunk.bytes.data(), values.data(), chunk.bytes.size());
  return chunk;
}

std::vector<actors::ChunkLayout> all_layouts() {
  std::vector<actors::ChunkLayout> layouts;
  constexpr std::uint32_t kShapes[][2] = {{3, 64}, {1, 256}, {2, 128}, {2, 80},
                                          {1, 96}, {5, 20},  {1, 1},   {3, 33}};
  for (const auto order :
       {actors::ChunkLayout::Order::kTiled, actors::ChunkLayout::Order::kRowMajor}) {
    for (const auto& shape : kShapes) layouts.push_back({order, shape[0], shape[1], 256});
  }
  return layouts;
}

std::string describe(const actors::ChunkLayout& layout, std::uint32_t token_count) {
  return std::string(layout.order == actors::ChunkLayout::Order::kTiled ? "tiled" : "row-major") +
         ", heads " + std::to_string(layout.kv_heads) + " of " + std::to_string(layout.head_dim) +
         ", " + std::to_string(token_count) + " of " + std::to_string(layout.tokens) + " tokens";
}

}  // namespace mzcache::codec::test
