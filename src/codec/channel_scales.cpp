// V's scales: chosen, so that what is encoded is found again by a second cycle.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/channel_quantiser.h"
#include "codec/chunk_values.h"

namespace mzcache::codec {
namespace {

using actors::ChunkLayout;

constexpr int kExponentMax = 127;

struct Scales {
  std::array<float, 256> scale{};
  std::array<float, 256> inverse{};
};

const Scales& scales() noexcept {
  static const Scales table = [] {
    Scales made;
    for (int e = -kExponentMax; e <= kExponentMax; ++e) {
      made.scale[static_cast<std::size_t>(e) + 128] = static_cast<float>(std::exp2(e / 8.0));
      made.inverse[static_cast<std::size_t>(e) + 128] = static_cast<float>(std::exp2(-e / 8.0));
    }
    return made;
  }();
  return table;
}

// The exponent of a token's rms.
int exponent_of(float energy, std::uint32_t width) noexcept {
  if (!(energy > 0)) return kZeroScale;
  if (!(energy < std::numeric_limits<float>::infinity())) return kExponentMax;
  const double exponent = std::round(4 * std::log2(double{energy} / width));
  return static_cast<int>(std::clamp(exponent, -double{kExponentMax}, double{kExponentMax}));
}

// The scales to be tried for a token whose rms has this exponent: 0, 1, -1, 2, -2 … from it.
int candidate(int first, int i) noexcept {
  return std::clamp(first + (i % 2 == 0 ? -i / 2 : (i + 1) / 2), -kExponentMax, kExponentMax);
}

}  // namespace

float scale_of(int exponent) noexcept {
  return scales().scale[static_cast<std::size_t>(exponent) + 128];
}
float inverse_scale_of(int exponent) noexcept {
  return scales().inverse[static_cast<std::size_t>(exponent) + 128];
}

bool ChannelQuantiser::reproduces_token(const std::byte* chunk, const ChannelPlan& plan,
                                        std::uint32_t token, int exponent) {
  const ChunkLayout& layout = geometry_.layout;
  const std::byte* const values = chunk + 2 * layout.values_per_half();
  const float scale = scale_of(exponent);
  const float inverse = inverse_scale_of(exponent);
  for (std::uint32_t head = 0; head < layout.kv_heads; ++head) {
    for (std::uint32_t block = 0; block < geometry_.blocks; ++block) {
      const std::uint32_t wide = geometry_.block_width(block);
      const std::byte* row =
          values + 2 * v_index(layout, token, head * layout.head_dim + block * kRowValues);
      std::array<std::byte, kRowBytes> padded{};
      if (wide < kRowValues) {
        std::memcpy(padded.data(), row, std::size_t{2} * wide);
        row = padded.data();
      }
      const ValueBlock of_plan = value_block(plan, head, block);
      if (kernels_.find_scale(of_plan, &scale, &inverse, 1, row) != 0) return false;
    }
  }
  return true;
}

// The same of what a token's symbols decode to at its own scale.
bool ChannelQuantiser::reproduces_decoded(const ChannelPlan& plan, std::uint32_t token,
                                          int exponent) {
  const float scale = scale_of(exponent);
  const float inverse = inverse_scale_of(exponent);
  const std::int16_t* symbols = work_.v_symbols.data() + std::size_t{token} * kRowValues;
  for (std::uint32_t i = 0; i < geometry_.layout.kv_heads * geometry_.blocks; ++i) {
    std::array<std::byte, kRowBytes> row{};
    const ValueBlock of_plan = value_block(plan, i / geometry_.blocks, i % geometry_.blocks);
    kernels_.dequantise_values(of_plan, &work_.scales[token], symbols, 1, row.data(), kRowBytes,
                               false);
    if (kernels_.find_scale(of_plan, &scale, &inverse, 1, row.data()) != 0) return false;
    symbols += std::size_t{geometry_.token_count} * kRowValues;
  }
  return true;
}

void ChannelQuantiser::add_energies(const std::byte* chunk) {
  const std::uint32_t tokens = geometry_.token_count;
  std::fill_n(work_.sums.begin(), tokens, 0.0F);
  for (std::uint32_t head = 0; head < geometry_.layout.kv_heads; ++head) {
    for (std::uint32_t block = 0; block < geometry_.blocks; ++block) {
      const Rows rows = value_rows(chunk, head, block);
      kernels_.add_energy(rows.data, rows.stride, tokens, work_.sums.data());
    }
  }
}

void ChannelQuantiser::add_decoded_energies(const ChannelPlan& plan) {
  const std::uint32_t tokens = geometry_.token_count;
  std::fill_n(work_.sums.begin(), tokens, 0.0F);
  const std::int16_t* symbols = work_.v_symbols.data();
  for (std::uint32_t i = 0; i < geometry_.layout.kv_heads * geometry_.blocks; ++i) {
    kernels_.add_decoded_energy(value_block(plan, i / geometry_.blocks, i % geometry_.blocks),
                                work_.scales.data(), symbols, tokens, work_.sums.data());
    symbols += std::size_t{tokens} * kRowValues;
  }
}

// The rms of decoded values is not the one their scale was made of; but there is a scale nearby
// that gives them back, and none that gives back other values.
int ChannelQuantiser::find_scale(const std::byte* chunk, const ChannelPlan& plan,
                                 std::uint32_t token, int first) {
  constexpr std::uint32_t kCandidates = 2 * kScaleReach + 1;
  std::array<float, kCandidates> scales{};
  std::array<float, kCandidates> inverses{};
  for (std::uint32_t i = 0; i < kCandidates; ++i) {
    scales[i] = scale_of(candidate(first, static_cast<int>(i)));
    inverses[i] = inverse_scale_of(candidate(first, static_cast<int>(i)));
  }
  // Nearly all candidates fail at the first row, where that is a whole one.
  const bool whole = geometry_.block_width(0) == kRowValues;
  const ChunkLayout& layout = geometry_.layout;
  const std::byte* const row = chunk + 2 * (layout.values_per_half() + v_index(layout, token, 0));
  const ValueBlock block = value_block(plan, 0, 0);
  for (std::uint32_t i = 0; i < kCandidates; ++i) {
    if (whole) {
      i += kernels_.find_scale(block, scales.data() + i, inverses.data() + i, kCandidates - i, row);
      if (i == kCandidates) break;
    }
    const int exponent = candidate(first, static_cast<int>(i));
    if (reproduces_token(chunk, plan, token, exponent)) return exponent;
  }
  return first;
}

void ChannelQuantiser::choose_scales(const std::byte* chunk, const ChannelPlan& plan) {
  add_energies(chunk);
  for (std::uint32_t token = 0; token < geometry_.token_count; ++token) {
    int exponent = exponent_of(work_.sums[token], geometry_.width);
    if (exponent != kZeroScale && work_.v_raw[token] == 0) {
      exponent = find_scale(chunk, plan, token, exponent);
    }
    work_.exponents[token] = static_cast<std::int8_t>(exponent);
  }
  make_scales();
}

// A decoded token gives back its symbols at its own scale, so what is left is whether that is the
// first to be tried of those that give the token back.
bool ChannelQuantiser::finds_scales(const ChannelPlan& plan) {
  add_decoded_energies(plan);
  for (std::uint32_t token = 0; token < geometry_.token_count; ++token) {
    if (work_.v_raw[token] != 0) continue;
    const int used = work_.exponents[token];  // NOLINT(bugprone-signed-char-misuse): a number
    const int first = exponent_of(work_.sums[token], geometry_.width);
    if (used == kZeroScale || first == kZeroScale || std::abs(used - first) > kScaleReach) {
      return false;
    }
    for (int i = 0; candidate(first, i) != used; ++i) {
      if (reproduces_decoded(plan, token, candidate(first, i))) return false;
    }
  }
  return true;
}

void ChannelQuantiser::make_scales() {
  for (std::uint32_t token = 0; token < geometry_.token_count; ++token) {
    work_.scales[token] = scale_of(work_.exponents[token]);
    work_.inverses[token] = inverse_scale_of(work_.exponents[token]);
  }
}

// Tokens whose scale a second cycle would not find are kept raw.
void ChannelQuantiser::check_scales() {
  for (std::uint32_t token = 0; token < geometry_.token_count; ++token) {
    const int used = work_.exponents[token];  // NOLINT(bugprone-signed-char-misuse): a number
    const int again = exponent_of(work_.sums[token], geometry_.width);
    const bool found = used == kZeroScale || again == kZeroScale
                           ? used == again
                           : std::abs(used - again) <= kScaleReach;
    if (!found) work_.v_raw[token] = 1;
  }
}

}  // namespace mzcache::codec
