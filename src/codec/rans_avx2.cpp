// rANS decoding with AVX2.
#include <immintrin.h>

#include <array>
#include <cstring>

#include "codec/rans.h"

namespace mzcache::codec {
namespace {

constexpr std::uint32_t kVectors = kRansLanes / 8;

// For each set of lanes that want a word: which of the next eight words each lane takes.
constexpr std::array<std::array<std::uint8_t, 8>, 256> make_places() {
  std::array<std::array<std::uint8_t, 8>, 256> places{};
  for (unsigned wanting = 0; wanting < 256; ++wanting) {
    std::uint8_t next = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      places[wanting][lane] = next;
      if ((wanting >> lane & 1U) != 0) ++next;
    }
  }
  return places;
}
constexpr auto kPlaces = make_places();

// Eight lanes: one symbol each, and the words that refill their states.
inline __m256i step(__m256i& state, __m256i table, const int* slots, const std::byte*& words) {
  const __m256i place = _mm256_add_epi32(
      table, _mm256_and_si256(state, _mm256_set1_epi32(static_cast<int>(kRansTotal - 1))));
  const __m256i slot = _mm256_i32gather_epi32(slots, place, 4);
  const __m256i low12 = _mm256_set1_epi32(0xFFF);
  const __m256i frequency = _mm256_and_si256(slot, low12);
  const __m256i bias = _mm256_and_si256(_mm256_srli_epi32(slot, 12), low12);
  const __m256i next =
      _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srli_epi32(state, kRansBits)), bias);
  // Below 2^16: nothing in the high half.
  const __m256i low = _mm256_cmpeq_epi32(_mm256_srli_epi32(next, 16), _mm256_setzero_si256());
  const auto wanting = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(low)));
  const __m256i eight =
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
  long long packed = 0;
  std::memcpy(&packed, kPlaces[wanting].data(), sizeof packed);
  const __m256i fresh =
      _mm256_permutevar8x32_epi32(eight, _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(packed)));
  const __m256i refilled = _mm256_or_si256(_mm256_slli_epi32(next, 16), fresh);
  state = _mm256_blendv_epi8(next, refilled, low);
  words += 2 * static_cast<std::size_t>(__builtin_popcount(wanting));
  return _mm256_srai_epi32(slot, 24);
}

inline void decode_row(__m256i* state, const __m256i* table, const int* slots,
                       const std::byte*& words, std::int16_t* symbols, __m256i& least) {
  for (std::uint32_t v = 0; v < kVectors; v += 2) {
    const __m256i a = step(state[v], table[v], slots, words);
    const __m256i b = step(state[v + 1], table[v + 1], slots, words);
    least = _mm256_min_epi32(least, _mm256_min_epi32(a, b));
    const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + std::size_t{8} * v), both);
  }
}

bool decode(RansDecoder& decoder, const RansTables& tables, const std::uint8_t* classes,
            bool per_lane, std::uint32_t rows, std::int16_t* symbols) {
  const int* const slots = reinterpret_cast<const int*>(&tables.slots[0][0]);
  __m256i state[kRansSets][kVectors];
  for (std::uint32_t set = 0; set < kRansSets; ++set) {
    const auto& from = decoder.states[set];
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      state[set][v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + v * 8));
    }
  }
  __m256i table[kVectors];
  for (std::uint32_t v = 0; v < kVectors && per_lane; ++v) {
    long long eight = 0;
    std::memcpy(&eight, classes + std::size_t{8} * v, sizeof eight);
    table[v] = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(eight)), kRansBits);
  }
  const std::byte* words = decoder.words;
  __m256i least = _mm256_setzero_si256();
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (!per_lane) {
      table[0] = _mm256_set1_epi32(classes[row] << kRansBits);
      for (std::uint32_t v = 1; v < kVectors; ++v) table[v] = table[0];
    }
    decode_row(state[(decoder.set + row) % kRansSets], table, slots, words, symbols, least);
    symbols += kRansLanes;
  }
  decoder.words = words;
  for (std::uint32_t set = 0; set < kRansSets; ++set) {
    auto& to = decoder.states[set];
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + v * 8), state[set][v]);
    }
  }
  decoder.set = (decoder.set + rows) % kRansSets;
  return _mm256_movemask_epi8(_mm256_cmpeq_epi32(least, _mm256_set1_epi32(kEscape))) != 0;
}

// For each set of lanes that give a word: where the last of eight places takes its word from, and
// those before it; places that take none hold anything.
constexpr std::array<std::array<std::uint8_t, 8>, 256> make_sources() {
  std::array<std::array<std::uint8_t, 8>, 256> sources{};
  for (unsigned giving = 0; giving < 256; ++giving) {
    unsigned place = 8;
    for (unsigned lane = 8; lane-- > 0;) {
      if ((giving >> lane & 1U) != 0) sources[giving][--place] = static_cast<std::uint8_t>(lane);
    }
  }
  return sources;
}
constexpr auto kSources = make_sources();

// Four lanes of u32, which AVX2 does not convert, as FP64.
inline __m256d to_double(__m128i value) {
  const __m256i magic = _mm256_set1_epi64x(0x4330000000000000LL);  // 2^52
  const __m256i wide = _mm256_or_si256(_mm256_cvtepu32_epi64(value), magic);
  return _mm256_sub_pd(_mm256_castsi256_pd(wide), _mm256_castsi256_pd(magic));
}
// ⌊a / b⌋ of four lanes, below 2^20; exact in FP64, because a < 2^32 and b < 2^12.
inline __m128i divide(__m128i a, __m128i b) {
  return _mm256_cvttpd_epi32(_mm256_div_pd(to_double(a), to_double(b)));
}

// Eight lanes: the words of states that are full, ending where `words` was, then the symbols.
inline void push(std::uint32_t* states, __m256i code, std::byte*& words) {
  const __m256i state = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(states));
  const __m256i frequency = _mm256_and_si256(code, _mm256_set1_epi32(0xFFFF));
  const __m256i limit = _mm256_slli_epi32(frequency, 32 - kRansBits);
  const __m256i full = _mm256_cmpeq_epi32(_mm256_max_epu32(state, limit), state);
  const auto giving = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(full)));
  long long packed = 0;
  std::memcpy(&packed, kSources[giving].data(), sizeof packed);
  const __m256i given = _mm256_and_si256(
      _mm256_permutevar8x32_epi32(state, _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(packed))),
      _mm256_set1_epi32(0xFFFF));
  const __m128i out =
      _mm_packus_epi32(_mm256_castsi256_si128(given), _mm256_extracti128_si256(given, 1));
  // What lies below the words given is written over by the next ones.
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words - 16), out);
  words -= 2 * static_cast<std::size_t>(__builtin_popcount(giving));
  const __m256i rest = _mm256_blendv_epi8(state, _mm256_srli_epi32(state, 16), full);
  const __m128i low = divide(_mm256_castsi256_si128(rest), _mm256_castsi256_si128(frequency));
  const __m128i high =
      divide(_mm256_extracti128_si256(rest, 1), _mm256_extracti128_si256(frequency, 1));
  const __m256i quotient = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
  const __m256i remainder = _mm256_sub_epi32(rest, _mm256_mullo_epi32(quotient, frequency));
  const __m256i next =
      _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(quotient, kRansBits), remainder),
                       _mm256_srli_epi32(code, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(states), next);
}

bool encode(RansEncoder& encoder, const RansTables& tables, const std::uint8_t* classes,
            bool per_lane, const std::int16_t* symbols) {
  // Stores reach at most a row below the last word.
  if (static_cast<std::size_t>(encoder.words - encoder.begin) < kRansRowWords * 2) return false;
  std::uint32_t* const states = encoder.states[--encoder.next_row % kRansSets];
  const int* const codes = reinterpret_cast<const int*>(&tables.codes[0][0]);
  std::byte* words = encoder.words;
  for (int v = static_cast<int>(kVectors) - 1; v >= 0; --v) {
    const __m256i symbol =
        _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols + 8 * v)));
    long long eight = 0;
    if (per_lane) std::memcpy(&eight, classes + 8 * v, sizeof eight);
    const __m256i table = per_lane
                              ? _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(eight)), 8)
                              : _mm256_set1_epi32(classes[0] << 8);
    const __m256i place = _mm256_add_epi32(table, _mm256_add_epi32(symbol, _mm256_set1_epi32(128)));
    push(states + 8 * v, _mm256_i32gather_epi32(codes, place, 4), words);
  }
  encoder.words = words;
  return true;
}

}  // namespace

const RansKernels kRansAvx2{"avx2", decode, encode};

}  // namespace mzcache::codec
