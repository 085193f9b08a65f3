// rANS decoding with AVX-512 (F, BW, DQ, VL).
#include <immintrin.h>

#include "codec/rans.h"

namespace mzcache::codec {
namespace {

// Sixteen lanes: one symbol each, and the words that refill their states.
inline __m512i step(__m512i& state, __m512i table, const std::uint32_t* slots,
                    const std::byte*& words) {
  const __m512i place = _mm512_add_epi32(
      table, _mm512_and_si512(state, _mm512_set1_epi32(static_cast<int>(kRansTotal - 1))));
  const __m512i slot = _mm512_i32gather_epi32(place, slots, 4);
  const __m512i low12 = _mm512_set1_epi32(0xFFF);
  const __m512i frequency = _mm512_and_si512(slot, low12);
  const __m512i bias = _mm512_and_si512(_mm512_srli_epi32(slot, 12), low12);
  const __m512i next =
      _mm512_add_epi32(_mm512_mullo_epi32(frequency, _mm512_srli_epi32(state, kRansBits)), bias);
  const __mmask16 low =
      _mm512_cmplt_epu32_mask(next, _mm512_set1_epi32(static_cast<int>(kRansLow)));
  const __m512i fresh = _mm512_maskz_expand_epi32(
      low, _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words))));
  state = _mm512_mask_or_epi32(next, low, _mm512_slli_epi32(next, 16), fresh);
  words += 2 * static_cast<std::size_t>(__builtin_popcount(low));
  return _mm512_srai_epi32(slot, 24);
}

inline void decode_row(__m512i (&state)[2], __m512i first, __m512i second,
                       const std::uint32_t* slots, const std::byte*& words, std::int16_t* symbols,
                       __m512i& least) {
  const __m512i a = step(state[0], first, slots, words);
  const __m512i b = step(state[1], second, slots, words);
  least = _mm512_min_epi32(least, _mm512_min_epi32(a, b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols), _mm512_cvtepi32_epi16(a));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + 16), _mm512_cvtepi32_epi16(b));
}

inline __m512i lane_tables(const std::uint8_t* classes) {
  return _mm512_slli_epi32(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(classes))), kRansBits);
}

bool decode(RansDecoder& decoder, const RansTables& tables, const std::uint8_t* classes,
            bool per_lane, std::uint32_t rows, std::int16_t* symbols) {
  const std::uint32_t* const slots = &tables.slots[0][0];
  __m512i state[kRansSets][2];
  for (std::uint32_t set = 0; set < kRansSets; ++set) {
    // From here on set 0 is the one whose turn it is.
    const auto& from = decoder.states[(decoder.set + set) % kRansSets];
    state[set][0] = _mm512_loadu_si512(from);
    state[set][1] = _mm512_loadu_si512(from + 16);
  }
  const std::byte* words = decoder.words;
  __m512i least = _mm512_setzero_si512();
  if (per_lane) {
    const __m512i first = lane_tables(classes);
    const __m512i second = lane_tables(classes + 16);
    for (std::uint32_t row = 0; row + 1 < rows; row += 2) {
      decode_row(state[0], first, second, slots, words, symbols, least);
      decode_row(state[1], first, second, slots, words, symbols + kRansLanes, least);
      symbols += std::size_t{2} * kRansLanes;
    }
    if (rows % 2 != 0) decode_row(state[0], first, second, slots, words, symbols, least);
  } else {
    for (std::uint32_t row = 0; row + 1 < rows; row += 2) {
      const __m512i even = _mm512_set1_epi32(classes[row] << kRansBits);
      const __m512i odd = _mm512_set1_epi32(classes[row + 1] << kRansBits);
      decode_row(state[0], even, even, slots, words, symbols, least);
      decode_row(state[1], odd, odd, slots, words, symbols + kRansLanes, least);
      symbols += std::size_t{2} * kRansLanes;
    }
    if (rows % 2 != 0) {
      const __m512i table = _mm512_set1_epi32(classes[rows - 1] << kRansBits);
      decode_row(state[0], table, table, slots, words, symbols, least);
    }
  }
  decoder.words = words;
  for (std::uint32_t set = 0; set < kRansSets; ++set) {
    auto& to = decoder.states[(decoder.set + set) % kRansSets];
    _mm512_storeu_si512(to, state[set][0]);
    _mm512_storeu_si512(to + 16, state[set][1]);
  }
  decoder.set = (decoder.set + rows) % kRansSets;
  return _mm512_cmpeq_epi32_mask(least, _mm512_set1_epi32(kEscape)) != 0;
}

// ⌊a / b⌋ of eight lanes; exact in FP64, because a < 2^32 and b < 2^12.
inline __m256i divide(__m256i a, __m256i b) {
  return _mm512_cvttpd_epu32(_mm512_div_pd(_mm512_cvtepu32_pd(a), _mm512_cvtepu32_pd(b)));
}

// Sixteen lanes: the words of states that are full, ending where `words` was, then the symbols.
inline void push(std::uint32_t* states, __m512i code, std::byte*& words) {
  const __m512i state = _mm512_loadu_si512(states);
  const __m512i frequency = _mm512_and_si512(code, _mm512_set1_epi32(0xFFFF));
  const __mmask16 full =
      _mm512_cmpge_epu32_mask(state, _mm512_slli_epi32(frequency, 32 - kRansBits));
  const auto count = static_cast<unsigned>(__builtin_popcount(full));
  const __m256i out = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(full, state));
  words -= 2 * static_cast<std::size_t>(count);
  _mm256_mask_storeu_epi16(words, static_cast<__mmask16>((1U << count) - 1), out);
  const __m512i rest = _mm512_mask_srli_epi32(state, full, state, 16);
  const __m256i low = divide(_mm512_castsi512_si256(rest), _mm512_castsi512_si256(frequency));
  const __m256i high =
      divide(_mm512_extracti64x4_epi64(rest, 1), _mm512_extracti64x4_epi64(frequency, 1));
  const __m512i quotient = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  const __m512i remainder = _mm512_sub_epi32(rest, _mm512_mullo_epi32(quotient, frequency));
  const __m512i next =
      _mm512_add_epi32(_mm512_add_epi32(_mm512_slli_epi32(quotient, kRansBits), remainder),
                       _mm512_srli_epi32(code, 16));
  _mm512_storeu_si512(states, next);
}

bool encode(RansEncoder& encoder, const RansTables& tables, const std::uint8_t* classes,
            bool per_lane, const std::int16_t* symbols) {
  if (static_cast<std::size_t>(encoder.words - encoder.begin) < kRansRowWords * 2) return false;
  std::uint32_t* const states = encoder.states[--encoder.next_row % kRansSets];
  std::byte* words = encoder.words;
  for (int half = 1; half >= 0; --half) {
    const __m512i symbol = _mm512_cvtepi16_epi32(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols + 16 * half)));
    const __m512i table =
        per_lane ? _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128(
                                         reinterpret_cast<const __m128i*>(classes + 16 * half))),
                                     8)
                 : _mm512_set1_epi32(classes[0] << 8);
    const __m512i place = _mm512_add_epi32(table, _mm512_add_epi32(symbol, _mm512_set1_epi32(128)));
    push(states + 16 * half, _mm512_i32gather_epi32(place, &tables.codes[0][0], 4), words);
  }
  encoder.words = words;
  return true;
}

}  // namespace

const RansKernels kRansAvx512{"avx512", decode, encode};

}  // namespace mzcache::codec
