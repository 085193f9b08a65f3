// Entropy coding of symbols: interleaved rANS with tables that are part of the code.
//
// A table belongs to a class of spreads, σ = 2^(class/4) steps for class -8 … 20: discretised
// mixtures of three zero-mean Gaussians, in 1/2048. Symbols beyond a table's alphabet are escapes:
// coded as kEscape, their value kept apart. One more class, kFlat, is for lanes that hold nothing.
//
// A row is 32 symbols, one per lane; two sets of 32 states (u32) take turns row by row, so that a
// decoder has two independent chains. Words are u16, in the order the decoder takes them.
//
// Included by files compiled for newer processors than the rest: no inline functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mzcache::codec {

inline constexpr int kRansClassMin = -8;
inline constexpr int kRansClassMax = 20;
inline constexpr std::uint32_t kRansClasses = kRansClassMax - kRansClassMin + 2;  // with kFlat
inline constexpr std::uint32_t kFlat = kRansClasses - 1;
inline constexpr unsigned kRansBits = 11;
inline constexpr std::uint32_t kRansTotal = 1U << kRansBits;
inline constexpr std::uint32_t kRansLow = 1U << 16;  // states are at least this between steps
inline constexpr std::uint32_t kRansLanes = 32;
inline constexpr std::uint32_t kRansSets = 2;
inline constexpr std::int16_t kEscape = -128;  // ordinary symbols are -127 … 127
// A batch of rows takes at most so many words per row; decoders may look this far ahead.
inline constexpr std::uint32_t kRansRowWords = kRansLanes;

struct RansTables {
  // Decoding, [class][slot]: bits 0–11 frequency, 12–23 slot - cumulated frequency, 24–31 symbol.
  std::uint32_t slots[kRansClasses][kRansTotal];
  // Encoding, [class][symbol + 128]: bits 0–15 frequency, 16–31 frequencies of the symbols before.
  std::uint32_t codes[kRansClasses][256];
  std::int16_t limit[kRansClasses];  // largest |symbol| of the alphabet
};
// Made once.
[[nodiscard]] const RansTables& rans_tables() noexcept;

// The class of a spread in steps; the nearest there is.
[[nodiscard]] std::uint8_t rans_class(double sigma_steps) noexcept;

struct RansDecoder {
  std::uint32_t states[kRansSets][kRansLanes];
  const std::byte* words;  // next
  std::uint32_t set;       // whose turn it is
};

// Encodes backwards: rows last to first, words from the end of a buffer towards its begin.
struct RansEncoder {
  std::uint32_t states[kRansSets][kRansLanes];
  std::byte* begin;
  std::byte* words;        // the last one written; starts at the buffer's end
  std::uint32_t next_row;  // rows left: next_row - 1 is encoded next
};
void rans_start(RansEncoder& encoder, std::byte* begin, std::byte* end,
                std::uint32_t rows) noexcept;

struct RansKernels {
  const char* name;
  // rows × 32 symbols; true where one of them is kEscape. classes: of each row (per_lane false), or
  // of each lane, for all rows. At least kRansRowWords words per row lie behind `words`, or what
  // pads them.
  bool (*decode)(RansDecoder& decoder, const RansTables& tables, const std::uint8_t* classes,
                 bool per_lane, std::uint32_t rows, std::int16_t* symbols);
  // One row; classes: one, or one per lane. False where the buffer has not kRansRowWords left.
  // Symbols are within their table's alphabet or kEscape.
  bool (*encode)(RansEncoder& encoder, const RansTables& tables, const std::uint8_t* classes,
                 bool per_lane, const std::int16_t* symbols);
};
extern const RansKernels kRansScalar;  // the reference
#if defined(__x86_64__)
extern const RansKernels kRansAvx2;
extern const RansKernels kRansAvx512;
#endif

}  // namespace mzcache::codec
