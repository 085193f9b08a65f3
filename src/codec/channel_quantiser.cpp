#include "codec/channel_quantiser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "codec/chunk_values.h"

namespace mzcache::codec {
namespace {

using actors::ChunkLayout;
using Order = ChunkLayout::Order;

// ValueBlock::sure. No value is more than √width times its token's rms; the scale is within
// kScaleReach and a half of that.
bool sure_values(std::uint32_t width, const ChannelPlan& plan) noexcept {
  constexpr float kRmsPerScale = 1.48F;  // 2^(4.5/8)
  constexpr std::uint32_t kWidthMax = 16384;
  const float largest =
      kRmsPerScale * std::sqrt(static_cast<float>(width)) + (kMovesMax + 1) * plan.v_step;
  return width <= kWidthMax && largest <= 0.45F * plan.v_step * 2030.0F;
}

}  // namespace

ChunkGeometry::ChunkGeometry(const ChunkLayout& chunk_layout, std::uint32_t tokens)
    : layout(chunk_layout),
      token_count(tokens),
      width(chunk_layout.kv_heads * chunk_layout.head_dim),
      tiles((tokens + kRowValues - 1) / kRowValues),
      blocks((chunk_layout.head_dim + kRowValues - 1) / kRowValues) {}

std::uint64_t ChunkGeometry::padded_values() const {
  return std::uint64_t{std::max(key_rows(), value_rows())} * kRowValues;
}

std::uint32_t ChunkGeometry::block_width(std::uint32_t block) const {
  return std::min(kRowValues, layout.head_dim - block * kRowValues);
}

QuantiserWork::QuantiserWork(Arena& arena, const ChunkLayout& layout) {
  const ChunkGeometry whole(layout, layout.tokens);
  const std::uint64_t lanes = kRowValues;
  // At least two tiles: blocks of 64 tokens are unpacked into both.
  k_symbols = arena.take<std::int16_t>(std::max(whole.key_rows(), 2 * whole.width) * lanes);
  v_symbols = arena.take<std::int16_t>(whole.value_rows() * lanes);
  const std::uint64_t rows = std::max(layout.head_dim, layout.tokens);
  staging = arena.take<std::byte>(rows * kRowBytes);
  const std::uint64_t pairs = layout.head_dim / 2;
  base_cosines = arena.take<double>(pairs);
  base_sines = arena.take<double>(pairs);
  cosines = arena.take<float>(pairs * lanes);
  sines = arena.take<float>(pairs * lanes);
  for (auto* per_token : {&scales, &inverses, &sums}) {
    *per_token = arena.take<float>(layout.tokens);
  }
  exponents = arena.take<std::int8_t>(layout.tokens);
  k_raw = arena.take<std::uint8_t>(layout.tokens);
  v_raw = arena.take<std::uint8_t>(layout.tokens);
}

ChannelQuantiser::ChannelQuantiser(const ChannelKernels& kernels, const RopeOffsets& rope,
                                   const ChunkGeometry& geometry, std::uint32_t first_position,
                                   QuantiserWork& work)
    : kernels_(kernels), rope_(rope), geometry_(geometry), work_(work) {
  base_angles(rope, first_position, work.base_cosines.data(), work.base_sines.data());
  std::memset(work.k_raw.data(), 0, work.k_raw.size());
  std::memset(work.v_raw.data(), 0, work.v_raw.size());
  if (first_position == 0) mark_sinks();
}

void ChannelQuantiser::mark_sinks() {
  for (std::uint32_t token = 0; token < std::min(kSinkTokens, geometry_.token_count); ++token) {
    work_.k_raw[token] = work_.v_raw[token] = 1;
  }
}

std::uint32_t ChannelQuantiser::lanes(std::uint32_t tile) const {
  return std::min(kRowValues, geometry_.token_count - tile * kRowValues);
}

bool ChannelQuantiser::in_place(std::uint32_t tile) const {
  return geometry_.layout.order == Order::kTiled && lanes(tile) == kRowValues;
}

// A tile of one head as [dim][32], lanes without a token at 0.
const std::byte* ChannelQuantiser::key_rows(const std::byte* chunk, std::uint32_t tile,
                                            std::uint32_t head) {
  const ChunkLayout& layout = geometry_.layout;
  const std::uint32_t first = head * layout.head_dim;
  if (in_place(tile)) return chunk + 2 * k_index(layout, tile * kRowValues, first);
  std::memset(work_.staging.data(), 0, layout.head_dim * kRowBytes);
  for (std::uint32_t dim = 0; dim < layout.head_dim; ++dim) {
    for (std::uint32_t lane = 0; lane < lanes(tile); ++lane) {
      std::memcpy(work_.staging.data() + dim * kRowBytes + 2 * std::size_t{lane},
                  chunk + 2 * k_index(layout, tile * kRowValues + lane, first + dim), 2);
    }
  }
  return work_.staging.data();
}

ChannelQuantiser::Rows ChannelQuantiser::value_rows(const std::byte* chunk, std::uint32_t head,
                                                    std::uint32_t block) {
  const ChunkLayout& layout = geometry_.layout;
  const std::byte* const values = chunk + 2 * layout.values_per_half();
  const std::uint32_t first = head * layout.head_dim + block * kRowValues;
  const std::uint32_t wide = geometry_.block_width(block);
  if (wide == kRowValues) {
    const std::size_t stride =
        layout.order == Order::kTiled ? kRowBytes : std::size_t{2} * geometry_.width;
    return {values + 2 * v_index(layout, 0, first), stride};
  }
  std::memset(work_.staging.data(), 0, geometry_.token_count * kRowBytes);
  for (std::uint32_t token = 0; token < geometry_.token_count; ++token) {
    std::memcpy(work_.staging.data() + token * kRowBytes,
                values + 2 * v_index(layout, token, first), std::size_t{2} * wide);
  }
  return {work_.staging.data(), kRowBytes};
}

KeyTile ChannelQuantiser::key_tile(const ChannelPlan& plan, std::uint32_t head) const {
  const std::size_t first = std::size_t{head} * geometry_.layout.head_dim;
  KeyTile tile;
  tile.dims = geometry_.layout.head_dim;
  tile.rotated = 2 * rope_.pairs;
  tile.split_halves = rope_.rope.pairing == actors::RopeDescription::Pairing::kSplitHalves;
  tile.mean = plan.k_mean + first;
  tile.step = plan.k_step + first;
  tile.inverse = plan.k_inverse + first;
  tile.cosines = work_.cosines.data();
  tile.sines = work_.sines.data();
  tile.symbol_max = plan.symbol_max;
  return tile;
}

ValueBlock ChannelQuantiser::value_block(const ChannelPlan& plan, std::uint32_t head,
                                         std::uint32_t block) const {
  const std::size_t first = (std::size_t{head} * geometry_.blocks + block) * kRowValues;
  return {plan.v_mean + first, plan.v_step, plan.v_inverse, plan.symbol_max,
          sure_values(geometry_.width, plan)};
}

void ChannelQuantiser::turn_to(std::uint32_t tile) {
  if (rope_.pairs == 0) return;  // nothing turns, and the tables are empty: no address to offset
  const std::size_t first = std::size_t{tile} * kRowValues;
  kernels_.turn(work_.base_cosines.data(), work_.base_sines.data(), rope_.cosines.data() + first,
                rope_.sines.data() + first, rope_.stride, rope_.pairs, work_.cosines.data(),
                work_.sines.data());
}

double ChannelQuantiser::key_energy(const std::byte* chunk) {
  double energy = 0;
  const ChunkLayout& layout = geometry_.layout;
  std::span<float> sums = work_.sums;
  for (std::uint32_t tile = 0; tile < geometry_.tiles; ++tile) {
    for (std::uint32_t head = 0; head < layout.kv_heads; ++head) {
      const std::byte* rows = key_rows(chunk, tile, head);
      const bool sinks = work_.k_raw[tile * kRowValues] != 0;  // only tile 0 of chunk 0
      if (sinks) {
        std::memmove(work_.staging.data(), rows, layout.head_dim * kRowBytes);
        for (std::uint32_t dim = 0; dim < layout.head_dim; ++dim) {
          std::memset(work_.staging.data() + dim * kRowBytes, 0, std::size_t{2} * kSinkTokens);
        }
        rows = work_.staging.data();
      }
      for (std::uint32_t dim = 0; dim < layout.head_dim; ++dim) {
        sums[0] = 0;
        kernels_.add_energy(rows + dim * kRowBytes, kRowBytes, 1, sums.data());
        energy += double{sums[0]};
      }
    }
  }
  return energy;
}

bool ChannelQuantiser::reproduces_keys(const std::byte* chunk, const ChannelPlan& plan) {
  for (std::uint32_t tile = 0; tile < geometry_.tiles; ++tile) {
    turn_to(tile);
    std::uint32_t looked_at = lanes(tile) == kRowValues ? ~0U : (1U << lanes(tile)) - 1;
    for (std::uint32_t lane = 0; lane < lanes(tile); ++lane) {
      if (work_.k_raw[tile * kRowValues + lane] != 0) looked_at &= ~(1U << lane);
    }
    KeyFlags flags;
    for (std::uint32_t head = 0; head < geometry_.layout.kv_heads; ++head) {
      KeyTile of_plan = key_tile(plan, head);
      of_plan.compare = true;
      const KeyFlags of_head =
          kernels_.quantise_keys(of_plan, key_rows(chunk, tile, head), work_.k_symbols.data());
      flags.changed |= of_head.changed;
      flags.unstable |= of_head.unstable;
    }
    if ((flags.changed & ~flags.unstable & looked_at) != 0) return false;
  }
  return true;
}

void ChannelQuantiser::quantise(const std::byte* chunk, const ChannelPlan& plan, Scales when) {
  quantise_keys(chunk, plan);
  choose_scales(chunk, plan);
  quantise_values(chunk, plan);
  if (when == Scales::kChecked || !sure(plan)) {
    add_decoded_energies(plan);
    check_scales();
  }
  clear_raw();
}

void ChannelQuantiser::quantise_keys(const std::byte* chunk, const ChannelPlan& plan) {
  const ChunkLayout& layout = geometry_.layout;
  std::int16_t* symbols = work_.k_symbols.data();
  sure_keys_ = true;
  for (std::uint32_t tile = 0; tile < geometry_.tiles; ++tile) {
    turn_to(tile);
    std::uint32_t unstable = 0;
    for (std::uint32_t head = 0; head < layout.kv_heads; ++head) {
      const KeyFlags flags =
          kernels_.quantise_keys(key_tile(plan, head), key_rows(chunk, tile, head), symbols);
      unstable |= flags.unstable;
      sure_keys_ = sure_keys_ && flags.unsure == 0;
      symbols += std::size_t{layout.head_dim} * kRowValues;
    }
    for (std::uint32_t lane = 0; lane < lanes(tile); ++lane) {
      work_.k_raw[tile * kRowValues + lane] |= static_cast<std::uint8_t>(unstable >> lane & 1U);
    }
  }
}

bool ChannelQuantiser::sure(const ChannelPlan& plan) const {
  if (!sure_keys_ || !sure_values(geometry_.width, plan)) return false;
  for (std::uint32_t token = 0; token < geometry_.token_count; ++token) {
    const float scale = work_.scales[token];
    const bool of_scale = scale >= kSureScaleMin && scale <= kSureScaleMax;
    if (!of_scale && work_.v_raw[token] == 0) return false;
  }
  return true;
}

void ChannelQuantiser::quantise_values(const std::byte* chunk, const ChannelPlan& plan) {
  const std::uint32_t tokens = geometry_.token_count;
  std::int16_t* symbols = work_.v_symbols.data();
  for (std::uint32_t head = 0; head < geometry_.layout.kv_heads; ++head) {
    for (std::uint32_t block = 0; block < geometry_.blocks; ++block) {
      const Rows rows = value_rows(chunk, head, block);
      const ValueBlock of_plan = value_block(plan, head, block);
      kernels_.quantise_values(of_plan, work_.scales.data(), work_.inverses.data(), rows.data,
                               rows.stride, tokens, symbols, work_.v_raw.data());
      symbols += std::size_t{tokens} * kRowValues;
    }
  }
}

void ChannelQuantiser::clear_raw() {
  const ChunkLayout& layout = geometry_.layout;
  const std::size_t tile_rows = std::size_t{layout.kv_heads} * layout.head_dim;
  for (std::uint32_t token = 0; token < geometry_.tiles * kRowValues; ++token) {
    if (token < geometry_.token_count && work_.k_raw[token] == 0) continue;
    std::int16_t* const lane =
        work_.k_symbols.data() + (token / kRowValues) * tile_rows * kRowValues + token % kRowValues;
    for (std::size_t row = 0; row < tile_rows; ++row) lane[row * kRowValues] = 0;
  }
  const std::size_t block_values = std::size_t{geometry_.token_count} * kRowValues;
  for (std::uint32_t token = 0; token < geometry_.token_count; ++token) {
    if (work_.v_raw[token] == 0) continue;
    work_.exponents[token] = kZeroScale;
    for (std::uint32_t i = 0; i < layout.kv_heads * geometry_.blocks; ++i) {
      std::memset(work_.v_symbols.data() + i * block_values + std::size_t{token} * kRowValues, 0,
                  kRowBytes);
    }
  }
}

}  // namespace mzcache::codec
