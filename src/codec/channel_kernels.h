// The inner loops of the quantiser that `entropy` and `packed` share, behind one dispatch point.
// Every variant gives the scalar reference's bits: FP32, no contraction, sums in a fixed order.
//
// K, per channel: u = K with its rotation undone, q = round((u - mean) · inverse), decoded
// fp16(rotate(mean + q · step)). V, per token: w = v · (1/r), q = round((w - mean) · (1/t)),
// decoded fp16((mean + q · t) · r).
//
// Rows are 32 values: of K one channel's tokens of a tile, of V one token's channels of a block.
// This header is included by files compiled for newer processors than the rest: no inline
// functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mzcache::codec {

inline constexpr std::uint32_t kRowValues = 32;
inline constexpr std::size_t kRowBytes = 2 * kRowValues;
// Symbols beyond are not kept: the token is then raw. Codecs may want less.
inline constexpr int kSymbolMax = 16383;

// One head of a tile of K. Arrays are per channel of the head; angles [pair][32].
struct KeyTile {
  std::uint32_t dims = 0;
  std::uint32_t rotated = 0;  // leading channels that are rotated, even
  bool split_halves = false;  // pairs (i, i + rotated/2), else (2i, 2i + 1)
  const float* mean = nullptr;
  const float* step = nullptr;
  const float* inverse = nullptr;
  const float* cosines = nullptr;
  const float* sines = nullptr;
  int symbol_max = kSymbolMax;
  bool compare = false;  // whether `changed` is wanted
};

// A block of up to 32 channels of V.
struct ValueBlock {
  const float* mean = nullptr;  // 32
  float step = 0;               // t
  float inverse = 0;            // 1/t
  int symbol_max = kSymbolMax;
  // Whether no value of a token is too many steps for FP16 to keep its symbol, or one kMovesMax
  // away: then tokens whose scale is within the sure ones need not be decoded to know it.
  bool sure = false;
};
// Neither overflow nor denormals come near them.
inline constexpr float kSureScaleMin = 0x1p-10F;
inline constexpr float kSureScaleMax = 16.0F;

// Lanes (tokens) of a tile of K, as bits.
//
// Most symbols need not be decoded to know that decoding would not change them. The error of FP16
// is at most 2^-11 of the length of a rotated pair, and rotating back keeps its length; where that
// is less than .45 of the pair's smaller step, and the pair no longer than what FP16 holds, a
// symbol is the nearest to what it decodes to, and so is any within kMovesMax steps of it (the
// length has room for that).
struct KeyFlags {
  std::uint32_t unstable = 0;  // Inf, NaN, a symbol too large, or one that decoding would change
  std::uint32_t changed = 0;   // decoding does not give the value itself
  std::uint32_t unsure = 0;    // some symbol had to be decoded
};
inline constexpr float kMovesMax = 6;

struct ChannelKernels {
  const char* name;
  // values and symbols: [dims][32].
  KeyFlags (*quantise_keys)(const KeyTile& tile, const std::byte* values, std::int16_t* symbols);
  void (*dequantise_keys)(const KeyTile& tile, const std::int16_t* symbols, std::byte* values,
                          bool streaming);
  // rows × 32 values at `stride` bytes; scales and their inverses per row; unstable[row] |= 1.
  void (*quantise_values)(const ValueBlock& block, const float* scales, const float* inverses,
                          const std::byte* values, std::size_t stride, std::uint32_t rows,
                          std::int16_t* symbols, std::uint8_t* unstable);
  void (*dequantise_values)(const ValueBlock& block, const float* scales,
                            const std::int16_t* symbols, std::uint32_t rows, std::byte* values,
                            std::size_t stride, bool streaming);
  // The first of `count` scales at which one row decodes to itself; `count` where there is none.
  std::uint32_t (*find_scale)(const ValueBlock& block, const float* scales, const float* inverses,
                              std::uint32_t count, const std::byte* row);
  // sums[row] += Σ v², in a fixed order.
  void (*add_energy)(const std::byte* values, std::size_t stride, std::uint32_t rows, float* sums);
  // The same of what symbols decode to.
  void (*add_decoded_energy)(const ValueBlock& block, const float* scales,
                             const std::int16_t* symbols, std::uint32_t rows, float* sums);
  // A tile's angles: (base + offset) per pair and lane; offsets' rows are `stride` doubles apart.
  void (*turn)(const double* base_cosines, const double* base_sines, const double* offset_cosines,
               const double* offset_sines, std::size_t stride, std::uint32_t pairs, float* cosines,
               float* sines);
  void (*fence)();
};

extern const ChannelKernels kChannelScalar;  // the reference
#if defined(__x86_64__)
extern const ChannelKernels kChannelAvx2;
extern const ChannelKernels kChannelAvx512;
#elif defined(__aarch64__)
extern const ChannelKernels kChannelNeon;
#endif

}  // namespace mzcache::codec
