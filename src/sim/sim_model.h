// The integer model of the simulation: pure functions, shared by the simulated device and by the
// reference that checks it. Every token of every layer has a seed; its row of K and V is the seed
// spelled out, so that a lossless codec can be small.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "actors/checksum.h"

namespace mzcache::sim {

constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t z = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// Byte `at` of the model file.
constexpr std::uint8_t file_byte(std::uint64_t at) noexcept {
  return static_cast<std::uint8_t>(mix(0xF11E, at / 8) >> (at % 8 * 8));
}

// A row of K and V (half each) from its seed, and back.
inline void write_row(std::span<std::byte> row, std::uint64_t seed) noexcept {
  for (std::size_t i = 0; i < row.size(); i += 8) {
    const std::uint64_t word = i == 0 ? seed : mix(seed, i);
    std::memcpy(row.data() + i, &word, 8);
  }
}
inline std::uint64_t row_seed(std::span<const std::byte> row) noexcept {
  std::uint64_t seed = 0;
  std::memcpy(&seed, row.data(), 8);
  return seed;
}
inline bool row_matches(std::span<const std::byte> row) noexcept {
  const std::uint64_t seed = row_seed(row);
  for (std::size_t i = 8; i < row.size(); i += 8) {
    const std::uint64_t word = mix(seed, i);
    if (std::memcmp(row.data() + i, &word, 8) != 0) return false;
  }
  return true;
}

// One layer for one token: the state before, the layer's weights, all rows before and the new one.
constexpr std::uint64_t kv_seed(std::uint64_t state, std::uint64_t weights) noexcept {
  return mix(state, weights);
}
constexpr std::uint64_t next_state(std::uint64_t state, std::uint64_t rows_digest) noexcept {
  return mix(state ^ 0xA77E, rows_digest);
}
// Digest of rows, folded in order of position.
constexpr std::uint64_t fold_row(std::uint64_t digest, std::uint64_t seed) noexcept {
  return mix(digest, seed);
}

}  // namespace mzcache::sim
