#include "codec/rans.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

namespace mzcache::codec {
namespace {

// Below half a slot a symbol is cheaper as an escape.
constexpr double kLeastShare = 0.5 / kRansTotal;
constexpr int kSymbolLimit = 127;

double below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// The mixture's probability of rounding to `symbol`.
double share(double sigma, int symbol) {
  constexpr double kWeights[] = {0.6, 0.3, 0.1};
  constexpr double kWidths[] = {0.8, 1.15, 1.9};
  double sum = 0;
  for (int i = 0; i < 3; ++i) {
    const double width = sigma * kWidths[i];
    sum += kWeights[i] * (below((symbol + 0.5) / width) - below((symbol - 0.5) / width));
  }
  return sum;
}

void fill_class(RansTables& tables, std::uint32_t index, double sigma, int limit_max) {
  int limit = 0;
  while (limit < limit_max && share(sigma, limit + 1) >= kLeastShare) ++limit;
  tables.limit[index] = static_cast<std::int16_t>(limit);
  std::uint32_t frequency[256] = {};
  double inside = 0;
  std::uint32_t taken = 0;
  for (int symbol = -limit; symbol <= limit; ++symbol) {
    const double p = share(sigma, symbol);
    inside += p;
    const auto slots = static_cast<std::uint32_t>(std::max(1.0, std::floor(p * kRansTotal + 0.5)));
    frequency[symbol + 128] = slots;
    taken += slots;
  }
  const auto escape =
      static_cast<std::uint32_t>(std::max(1.0, std::floor((1.0 - inside) * kRansTotal + 0.5)));
  frequency[kEscape + 128] = escape;
  taken += escape;
  // What rounding left over, or took too much, is the most frequent symbol's.
  frequency[128] = frequency[128] + kRansTotal - taken;

  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < 256; ++i) {
    tables.codes[index][i] = frequency[i] | at << 16;
    for (std::uint32_t k = 0; k < frequency[i]; ++k) {
      const std::uint32_t symbol = (i - 128U) & 0xFFU;
      tables.slots[index][at++] = frequency[i] | k << 12 | symbol << 24;
    }
  }
}

std::unique_ptr<const RansTables> make_tables() {
  auto tables = std::make_unique<RansTables>();
  std::memset(tables.get(), 0, sizeof *tables);
  for (int c = kRansClassMin; c <= kRansClassMax; ++c) {
    fill_class(*tables, static_cast<std::uint32_t>(c - kRansClassMin), std::exp2(c / 4.0),
               kSymbolLimit);
  }
  fill_class(*tables, kFlat, 0.05, 0);
  return tables;
}

}  // namespace

const RansTables& rans_tables() noexcept {
  static const std::unique_ptr<const RansTables> tables = make_tables();
  return *tables;
}

std::uint8_t rans_class(double sigma_steps) noexcept {
  if (!(sigma_steps > 0)) return 0;
  const double c = std::round(4 * std::log2(sigma_steps));
  return static_cast<std::uint8_t>(std::clamp(c, double{kRansClassMin}, double{kRansClassMax}) -
                                   kRansClassMin);
}

void rans_start(RansEncoder& encoder, std::byte* begin, std::byte* end,
                std::uint32_t rows) noexcept {
  for (auto& set : encoder.states) std::fill(std::begin(set), std::end(set), kRansLow);
  encoder.begin = begin;
  encoder.words = end;
  encoder.next_row = rows;
}

namespace {

bool encode(RansEncoder& encoder, const RansTables& tables, const std::uint8_t* classes,
            bool per_lane, const std::int16_t* symbols) {
  if (static_cast<std::size_t>(encoder.words - encoder.begin) < kRansRowWords * 2) return false;
  auto& states = encoder.states[--encoder.next_row % kRansSets];
  std::byte* words = encoder.words;
  for (std::uint32_t lane = kRansLanes; lane-- > 0;) {
    const std::uint32_t code = tables.codes[classes[per_lane ? lane : 0]][symbols[lane] + 128];
    const std::uint32_t frequency = code & 0xFFFFU;
    std::uint32_t state = states[lane];
    const bool full = state >= frequency << (32 - kRansBits);
    const auto word = static_cast<std::uint16_t>(state);
    std::memcpy(words - 2, &word, sizeof word);  // kept only where the state was full
    words -= full ? 2 : 0;
    state = full ? state >> 16 : state;
    states[lane] = (state / frequency << kRansBits) + state % frequency + (code >> 16);
  }
  encoder.words = words;
  return true;
}

template <bool kPerLane>
bool decode_as(RansDecoder& decoder, const RansTables& tables, const std::uint8_t* classes,
               std::uint32_t rows, std::int16_t* symbols) {
  const std::uint32_t* slots[kRansLanes];
  for (std::uint32_t lane = 0; kPerLane && lane < kRansLanes; ++lane) {
    slots[lane] = tables.slots[classes[lane]];
  }
  std::int16_t least = 0;
  const std::byte* words = decoder.words;
  std::uint32_t set = decoder.set;
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::uint32_t* const states = decoder.states[set];
    const std::uint32_t* const slots_of_row = tables.slots[classes[kPerLane ? 0 : row]];
    for (std::uint32_t lane = 0; lane < kRansLanes; ++lane) {
      const std::uint32_t state = states[lane];
      const std::uint32_t slot = (kPerLane ? slots[lane] : slots_of_row)[state % kRansTotal];
      const std::uint32_t next = (slot & 0xFFFU) * (state >> kRansBits) + (slot >> 12 & 0xFFFU);
      symbols[lane] = static_cast<std::int16_t>(static_cast<std::int32_t>(slot) >> 24);
      // Without a branch: whether a lane wants a word is as good as random.
      std::uint16_t word = 0;
      std::memcpy(&word, words, sizeof word);
      const std::uint32_t low = static_cast<std::uint32_t>((next - std::uint64_t{kRansLow}) >> 63);
      const std::uint32_t shift = low << 4;
      states[lane] = next << shift | (word & (0U - low));
      words += 2 * low;
    }
    for (std::uint32_t lane = 0; lane < kRansLanes; ++lane) {
      least = std::min(least, symbols[lane]);
    }
    set = (set + 1) % kRansSets;
    symbols += kRansLanes;
  }
  decoder.words = words;
  decoder.set = set;
  return least == kEscape;
}

bool decode(RansDecoder& decoder, const RansTables& tables, const std::uint8_t* classes,
            bool per_lane, std::uint32_t rows, std::int16_t* symbols) {
  return per_lane ? decode_as<true>(decoder, tables, classes, rows, symbols)
                  : decode_as<false>(decoder, tables, classes, rows, symbols);
}

}  // namespace

const RansKernels kRansScalar{"scalar", decode, encode};

}  // namespace mzcache::codec
