// Sums of eight rows at once, in the order in which Simd::sum32 adds those of one.
// Included inside namespace mzcache::codec { namespace { … } }.

// Two rows of eight values, four apart added.
inline __m256 fold4(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

inline void add_folded8(const __m256* eights, float* sums) {
  const __m256 rows01 = fold4(eights[0], eights[1]);
  const __m256 rows23 = fold4(eights[2], eights[3]);
  const __m256 rows45 = fold4(eights[4], eights[5]);
  const __m256 rows67 = fold4(eights[6], eights[7]);
  // Two apart, then one apart: rows 0, 2, 4, 6 in the low half, 1, 3, 5, 7 in the high one.
  const __m256 low =
      _mm256_add_ps(_mm256_shuffle_ps(rows01, rows23, 0x44), _mm256_shuffle_ps(rows01, rows23, 0xEE));
  const __m256 high =
      _mm256_add_ps(_mm256_shuffle_ps(rows45, rows67, 0x44), _mm256_shuffle_ps(rows45, rows67, 0xEE));
  const __m256 all =
      _mm256_add_ps(_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xDD));
  const __m256 in_order =
      _mm256_permutevar8x32_ps(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_ps(sums, _mm256_add_ps(_mm256_loadu_ps(sums), in_order));
}
