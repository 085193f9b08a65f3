// Chunks for the codec tests: layouts of many shapes, and values that are random, real-looking or
// chosen to hurt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "actors/ports.h"

namespace mzcache::codec::test {

enum class Data : std::uint8_t {
  kNormal,       // gaussian
  kRealLooking,  // per-channel offsets and widths, a few channels far out, some near zero
  kBits,         // any finite FP16
  kEqual,        // one value per chunk
  kZeros,        // 0 and -0
  kHuge,         // around ±65504
  kDenormal,     // multiples of 2^-24 below 2^-14
  kTight,        // FP16 neighbours far from zero: fewer values than codes
  kTies,         // small integers times a power of two: ranges that hit rounding ties
  kOneSided,     // one far value among tiny ones
};
inline constexpr Data kAllData[] = {
    Data::kNormal, Data::kRealLooking, Data::kBits,  Data::kEqual, Data::kZeros,
    Data::kHuge,   Data::kDenormal,    Data::kTight, Data::kTies,  Data::kOneSided};

// `count` FP16 values.
std::vector<std::uint16_t> make_values(Data data, std::size_t count, std::size_t channels,
                                       std::mt19937_64& random);

struct Chunk {
  actors::ChunkLayout layout;
  std::uint32_t token_count = 0;
  std::vector<std::byte> bytes;

  [[nodiscard]] actors::ChunkView view() const {
    return {0, 0, token_count, &layout, nullptr, bytes};
  }
  [[nodiscard]] actors::MutableChunkView mutable_view() {
    return {0, 0, token_count, &layout, nullptr, bytes};
  }
};

Chunk make_chunk(const actors::ChunkLayout& layout, std::uint32_t token_count, Data data,
                 std::mt19937_64& random);
std::vector<actors::ChunkLayout> all_layouts();
std::string describe(const actors::ChunkLayout& layout, std::uint32_t token_count);

}  // namespace mzcache::codec::test
