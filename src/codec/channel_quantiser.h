// The quantiser that `entropy` and `packed` share: a uniform step per channel of un-rotated K,
// weighted by the energy of the queries it meets; V in units of its token's rms. What does not come
// back unchanged in a second cycle, is Inf or NaN, or is one of the sequence's first four tokens
// (attention sinks), stays raw.
//
// Symbols lie in rows of 32 (channel_kernels.h): K's [tile][head][dim] with tokens as lanes, V's
// [head][block of 32 dims][token] with dims as lanes.
#pragma once

#include <span>

#include "actors/ports.h"
#include "codec/arena.h"
#include "codec/channel_kernels.h"
#include "codec/rope_table.h"

namespace mzcache::codec {

inline constexpr std::uint32_t kSinkTokens = 4;
// How far the rms of a decoded token may be from the one its scale was made of, in eighths of an
// octave: a second cycle tries that many scales on both sides.
inline constexpr int kScaleReach = 4;

// Sizes that follow from a layout and the number of valid tokens.
struct ChunkGeometry {
  ChunkGeometry(const actors::ChunkLayout& chunk_layout, std::uint32_t tokens);
  [[nodiscard]] std::uint32_t key_rows() const { return tiles * layout.kv_heads * layout.head_dim; }
  [[nodiscard]] std::uint32_t value_rows() const { return layout.kv_heads * blocks * token_count; }
  // Of K or of V in whole rows, whichever has more.
  [[nodiscard]] std::uint64_t padded_values() const;
  [[nodiscard]] std::uint32_t block_width(std::uint32_t block) const;

  const actors::ChunkLayout& layout;
  std::uint32_t token_count;
  std::uint32_t width;   // channels of a token
  std::uint32_t tiles;   // of 32 tokens
  std::uint32_t blocks;  // of 32 dims of a head
};

// Steps and means of one layer. K's per channel, V's per [head][block][lane], lanes that hold
// nothing at 0.
struct ChannelPlan {
  const float* k_mean = nullptr;
  const float* k_step = nullptr;
  const float* k_inverse = nullptr;
  const float* v_mean = nullptr;
  float v_step = 0;
  float v_inverse = 0;
  int symbol_max = kSymbolMax;
};

struct QuantiserWork {
  // Counts where the arena does.
  QuantiserWork(Arena& arena, const actors::ChunkLayout& layout);

  std::span<std::int16_t> k_symbols, v_symbols;
  std::span<std::byte> staging;  // a tile of K or a block of V, in rows
  std::span<double> base_cosines, base_sines;
  std::span<float> cosines, sines;
  std::span<float> scales, inverses, sums;  // per token
  std::span<std::int8_t> exponents;         // per token
  std::span<std::uint8_t> k_raw, v_raw;     // per token: kept as it is
};

// One chunk under way; the codec's tables and the workspace outlive it.
class ChannelQuantiser {
 public:
  ChannelQuantiser(const ChannelKernels& kernels, const RopeOffsets& rope,
                   const ChunkGeometry& geometry, std::uint32_t first_position,
                   QuantiserWork& work);

  // Whether quantise() makes sure that a second cycle finds V's scales again, or leaves that to
  // finds_scales() where sure().
  enum class Scales : std::uint8_t { kChecked, kLater };
  // Encoding. Fills symbols, exponents, scales and raw flags; raw tokens' symbols are 0.
  void quantise(const std::byte* chunk, const ChannelPlan& plan, Scales when = Scales::kChecked);
  // Whether, after quantise(), symbols of tokens not kept raw are known to come back from what they
  // decode to, those moved by up to kMovesMax steps too.
  [[nodiscard]] bool sure(const ChannelPlan& plan) const;
  // Whether a second cycle finds the scales again in what V's symbols decode to, where sure().
  [[nodiscard]] bool finds_scales(const ChannelPlan& plan);
  // Symbols of raw tokens, and of lanes without a token, to 0.
  void clear_raw();
  // Σ v² of K's tokens but for the sinks; 0 where all is zero.
  [[nodiscard]] double key_energy(const std::byte* chunk);
  // Whether K decodes to itself with these steps, but for tokens that would be kept raw.
  [[nodiscard]] bool reproduces_keys(const std::byte* chunk, const ChannelPlan& plan);

  // Decoding. Scales from exponents, which were read.
  void make_scales();
  // One head of a tile; only valid tokens are written.
  void put_keys(std::byte* chunk, const ChannelPlan& plan, std::uint32_t tile, std::uint32_t head,
                const std::int16_t* symbols);
  // Rows [first, first + rows) of a block.
  void put_values(std::byte* chunk, const ChannelPlan& plan, std::uint32_t head,
                  std::uint32_t block, std::uint32_t first, std::uint32_t rows,
                  const std::int16_t* symbols);
  // A tile's angles; before its put_keys.
  void turn_to(std::uint32_t tile);
  void finish();

  // Row of a token's K or V values as FP16, for tokens that are kept raw.
  void copy_raw(const std::byte* chunk, bool values, std::uint32_t token, std::byte* row) const;
  void put_raw(std::byte* chunk, bool values, std::uint32_t token, const std::byte* row) const;

 private:
  struct Rows {
    const std::byte* data;
    std::size_t stride;
  };
  [[nodiscard]] const std::byte* key_rows(const std::byte* chunk, std::uint32_t tile,
                                          std::uint32_t head);
  [[nodiscard]] Rows value_rows(const std::byte* chunk, std::uint32_t head, std::uint32_t block);
  [[nodiscard]] KeyTile key_tile(const ChannelPlan& plan, std::uint32_t head) const;
  [[nodiscard]] ValueBlock value_block(const ChannelPlan& plan, std::uint32_t head,
                                       std::uint32_t block) const;
  [[nodiscard]] std::uint32_t lanes(std::uint32_t tile) const;
  [[nodiscard]] bool in_place(std::uint32_t tile) const;
  void mark_sinks();
  void quantise_keys(const std::byte* chunk, const ChannelPlan& plan);
  void quantise_values(const std::byte* chunk, const ChannelPlan& plan);
  void choose_scales(const std::byte* chunk, const ChannelPlan& plan);
  void add_energies(const std::byte* chunk);
  void add_decoded_energies(const ChannelPlan& plan);
  [[nodiscard]] int find_scale(const std::byte* chunk, const ChannelPlan& plan, std::uint32_t token,
                               int first);
  [[nodiscard]] bool reproduces_token(const std::byte* chunk, const ChannelPlan& plan,
                                      std::uint32_t token, int exponent);
  [[nodiscard]] bool reproduces_decoded(const ChannelPlan& plan, std::uint32_t token, int exponent);
  void check_scales();

  const ChannelKernels& kernels_;
  const RopeOffsets& rope_;
  const ChunkGeometry& geometry_;
  QuantiserWork& work_;
  bool sure_keys_ = false;
};

// 2^(exponent/8) and its inverse; 0 and 0 for kZeroScale, a token that is all zero.
inline constexpr std::int8_t kZeroScale = -128;
[[nodiscard]] float scale_of(int exponent) noexcept;
[[nodiscard]] float inverse_scale_of(int exponent) noexcept;

}  // namespace mzcache::codec
