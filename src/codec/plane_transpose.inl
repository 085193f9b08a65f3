// 32 × 32 symbols transposed with AVX2, 16 rows of 8 at a time.
// Included inside namespace mzcache::codec { namespace { … } }.

inline __m256i two_rows(const std::int16_t* first, const std::int16_t* second) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(second)), 1);
}

// Rows i and 8 + i share a register, one in each half: so do their columns in the end.
inline void transpose16x8(const std::int16_t* from, std::size_t from_stride, std::int16_t* to,
                          std::size_t to_stride) {
  __m256i row[8];
  for (std::size_t i = 0; i < 8; ++i) {
    row[i] = two_rows(from + i * from_stride, from + (8 + i) * from_stride);
  }
  __m256i pair[8];
  for (std::size_t i = 0; i < 4; ++i) {
    pair[2 * i] = _mm256_unpacklo_epi16(row[2 * i], row[2 * i + 1]);
    pair[2 * i + 1] = _mm256_unpackhi_epi16(row[2 * i], row[2 * i + 1]);
  }
  __m256i four[8];
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t half = 0; half < 2; ++half) {
      four[4 * i + 2 * half] = _mm256_unpacklo_epi32(pair[4 * i + half], pair[4 * i + 2 + half]);
      four[4 * i + 2 * half + 1] =
          _mm256_unpackhi_epi32(pair[4 * i + half], pair[4 * i + 2 + half]);
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2 * i * to_stride),
                        _mm256_unpacklo_epi64(four[i], four[4 + i]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (2 * i + 1) * to_stride),
                        _mm256_unpackhi_epi64(four[i], four[4 + i]));
  }
}

inline void transpose(const std::int16_t* from, std::size_t from_stride, std::int16_t* to,
                      std::size_t to_stride) {
  for (std::size_t row = 0; row < 32; row += 16) {
    for (std::size_t column = 0; column < 32; column += 8) {
      transpose16x8(from + row * from_stride + column, from_stride, to + column * to_stride + row,
                    to_stride);
    }
  }
}
