// 32 × 32 symbols transposed in squares of 8 × 8, with SSE2.
// Included inside namespace mzcache::codec { namespace { … } }.

inline void transpose8(const std::int16_t* from, std::size_t from_stride, std::int16_t* to,
                       std::size_t to_stride) {
  __m128i row[8];
  for (std::size_t i = 0; i < 8; ++i) {
    row[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * from_stride));
  }
  __m128i pair[8];
  for (std::size_t i = 0; i < 4; ++i) {
    pair[2 * i] = _mm_unpacklo_epi16(row[2 * i], row[2 * i + 1]);
    pair[2 * i + 1] = _mm_unpackhi_epi16(row[2 * i], row[2 * i + 1]);
  }
  __m128i four[8];
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t half = 0; half < 2; ++half) {
      four[4 * i + 2 * half] = _mm_unpacklo_epi32(pair[4 * i + half], pair[4 * i + 2 + half]);
      four[4 * i + 2 * half + 1] = _mm_unpackhi_epi32(pair[4 * i + half], pair[4 * i + 2 + half]);
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i * to_stride),
                     _mm_unpacklo_epi64(four[i], four[4 + i]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + (2 * i + 1) * to_stride),
                     _mm_unpackhi_epi64(four[i], four[4 + i]));
  }
}

inline void transpose(const std::int16_t* from, std::size_t from_stride, std::int16_t* to,
                      std::size_t to_stride) {
  for (std::size_t row = 0; row < 32; row += 8) {
    for (std::size_t column = 0; column < 32; column += 8) {
      transpose8(from + row * from_stride + column, from_stride, to + column * to_stride + row,
                 to_stride);
    }
  }
}
