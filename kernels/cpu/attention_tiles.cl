// Tiles of attention for registers of 8 floats, of which there are 16 (AVX2). Converting FP16 costs
// as much as some products there: more than four rows share a tile that was converted once; fewer
// take it as it lies. Sums are taken in the same order as with wider registers.

#if MZ_NARROW

typedef _Float16 mz_half_8 __attribute__((ext_vector_type(8), aligned(2)));
static inline float8 mz_load_half8(mz_bytes p) {
  return __builtin_convertvector(*(__global const mz_half_8*)p, float8);
}

#define MZ_ROW_QUERY(I) __global const float* q##I = query[I];
#define MZ_ROW_ZERO_2(I) float8 a##I = (float8)(0.0f), b##I = a##I;
#define MZ_ROW_ZERO_4(I) MZ_ROW_ZERO_2(I) float8 c##I = a##I, e##I = a##I;
#define MZ_ROW_LOAD_2(I) \
  float8 a##I = vload8(0, sums + I * stride + dim), b##I = vload8(1, sums + I * stride + dim);
#define MZ_ROW_LOAD_4(I) \
  MZ_ROW_LOAD_2(I)       \
  float8 c##I = vload8(2, sums + I * stride + dim), e##I = vload8(3, sums + I * stride + dim);
#define MZ_ROW_STORE_2(TO, I) vstore8(a##I, 0, (TO)); vstore8(b##I, 1, (TO));
#define MZ_ROW_STORE_4(TO, I) \
  MZ_ROW_STORE_2(TO, I) vstore8(c##I, 2, (TO)); vstore8(e##I, 3, (TO));
#define MZ_ROW_STEP_2(I, X)                 \
  {                                         \
    const float8 x = (float8)(X);           \
    a##I = mz_fma8(x, v0, a##I);            \
    b##I = mz_fma8(x, v1, b##I);            \
  }
#define MZ_ROW_STEP_4(I, X)                 \
  {                                         \
    const float8 x = (float8)(X);           \
    a##I = mz_fma8(x, v0, a##I);            \
    b##I = mz_fma8(x, v1, b##I);            \
    c##I = mz_fma8(x, v2, c##I);            \
    e##I = mz_fma8(x, v3, e##I);            \
  }
#define MZ_KEY_STEP_2(I) MZ_ROW_STEP_2(I, q##I[d])
#define MZ_KEY_STEP_4(I) MZ_ROW_STEP_4(I, q##I[d])
#define MZ_KEY_STORE_2(I) MZ_ROW_STORE_2(scores + I * MZ_CHUNK_TOKENS + token, I)
#define MZ_KEY_STORE_4(I) MZ_ROW_STORE_4(scores + I * MZ_CHUNK_TOKENS + token, I)
#define MZ_VALUE_STEP_2(I) MZ_ROW_STEP_2(I, scores[I * MZ_CHUNK_TOKENS + t])
#define MZ_VALUE_STEP_4(I) MZ_ROW_STEP_4(I, scores[I * MZ_CHUNK_TOKENS + t])
#define MZ_VALUE_STORE_2(I) MZ_ROW_STORE_2(sums + I * stride + dim, I)
#define MZ_VALUE_STORE_4(I) MZ_ROW_STORE_4(sums + I * stride + dim, I)

#define MZ_HALVES_2(P) const float8 v0 = mz_load_half8(P), v1 = mz_load_half8((P) + 16);
#define MZ_HALVES_4(P) \
  MZ_HALVES_2(P) const float8 v2 = mz_load_half8((P) + 32), v3 = mz_load_half8((P) + 48);

// Few rows: V vectors of the 32 tokens, or dims, at a time.
#define MZ_FEW_ROWS(SUFFIX, ROWS_OF, V)                                                           \
  static inline void mz_keys_##SUFFIX(mz_bytes keys, uint head_dim, __global const float** query, \
                                      __private float* scores, mz_bytes ahead) {                  \
    ROWS_OF(MZ_ROW_QUERY)                                                                         \
    for (uint token = 0; token < 32; token += 8 * V) {                                            \
      ROWS_OF(MZ_ROW_ZERO_##V)                                                                    \
      for (uint d = 0; d < head_dim; ++d) {                                                       \
        MZ_PREFETCH(ahead + (size_t)d * 64);                                                      \
        MZ_HALVES_##V(keys + (size_t)d * 64 + token * 2)                                          \
        ROWS_OF(MZ_KEY_STEP_##V)                                                                  \
      }                                                                                           \
      ROWS_OF(MZ_KEY_STORE_##V)                                                                   \
    }                                                                                             \
  }                                                                                               \
  static inline void mz_values_##SUFFIX(mz_bytes values, uint begin, uint end,                    \
                                        __private const float* scores, __private float* sums,     \
                                        uint stride, mz_bytes ahead) {                            \
    for (uint dim = 0; dim < 32; dim += 8 * V) {                                                  \
      ROWS_OF(MZ_ROW_LOAD_##V)                                                                    \
      for (uint t = begin; t < end; ++t) {                                                        \
        MZ_PREFETCH(ahead + (size_t)t * 64);                                                      \
        MZ_HALVES_##V(values + (size_t)t * 64 + dim * 2)                                          \
        ROWS_OF(MZ_VALUE_STEP_##V)                                                                \
      }                                                                                           \
      ROWS_OF(MZ_VALUE_STORE_##V)                                                                 \
    }                                                                                             \
  }
MZ_FEW_ROWS(1, MZ_ONE, 4)
MZ_FEW_ROWS(2, MZ_TWO, 4)
MZ_FEW_ROWS(4, MZ_FOUR, 2)

// Many rows, over floats: keys [head_dim][16 tokens], values [tokens][32 dims].
#define MZ_MORE_ROWS(SUFFIX, ROWS_OF)                                                              \
  static inline void mz_key_floats_##SUFFIX(__private const float* keys, uint head_dim,            \
                                            __global const float** query,                          \
                                            __private float* scores) {                             \
    const uint token = 0;                                                                          \
    ROWS_OF(MZ_ROW_QUERY)                                                                          \
    ROWS_OF(MZ_ROW_ZERO_2)                                                                         \
    for (uint d = 0; d < head_dim; ++d) {                                                          \
      const float8 v0 = vload8(2 * d, keys), v1 = vload8(2 * d + 1, keys);                         \
      ROWS_OF(MZ_KEY_STEP_2)                                                                       \
    }                                                                                              \
    ROWS_OF(MZ_KEY_STORE_2)                                                                        \
  }                                                                                                \
  static inline void mz_value_floats_##SUFFIX(__private const float* values, uint count,           \
                                              __private const float* scores,                       \
                                              __private float* sums, uint stride) {                \
    for (uint dim = 0; dim < 32; dim += 16) {                                                      \
      ROWS_OF(MZ_ROW_LOAD_2)                                                                       \
      for (uint t = 0; t < count; ++t) {                                                           \
        const float8 v0 = vload8(4 * t, values + dim), v1 = vload8(4 * t + 1, values + dim);       \
        ROWS_OF(MZ_VALUE_STEP_2)                                                                   \
      }                                                                                            \
      ROWS_OF(MZ_VALUE_STORE_2)                                                                    \
    }                                                                                              \
  }
MZ_MORE_ROWS(4, MZ_FOUR)
MZ_MORE_ROWS(6, MZ_SIX)

// Of `left` rows, how many to take next: 6 or 4, so that few are taken in vain. Rows behind the last
// one repeat it and are not looked at.
static inline uint mz_rows_next(uint left) { return left >= 9 || left == 5 || left == 6 ? 6 : 4; }

static inline void mz_keys(mz_bytes keys, uint head_dim, uint rows, __global const float** query,
                           __private float* scores, mz_bytes ahead) {
  if (rows == 1) return mz_keys_1(keys, head_dim, query, scores, ahead);
  if (rows == 2) return mz_keys_2(keys, head_dim, query, scores, ahead);
  if (rows <= 4) return mz_keys_4(keys, head_dim, query, scores, ahead);
  float tile[256 * 16] __attribute__((aligned(64)));
  for (uint token = 0; token < MZ_TILE_TOKENS; token += 16) {
    for (uint d = 0; d < head_dim; ++d) {
      if (token == 0) MZ_PREFETCH(ahead + (size_t)d * 64);
      MZ_HALVES_2(keys + (size_t)d * 64 + token * 2)
      vstore8(v0, 2 * d, tile);
      vstore8(v1, 2 * d + 1, tile);
    }
    for (uint r = 0; r < rows;) {
      __private float* to = scores + r * MZ_CHUNK_TOKENS + token;
      const uint next = mz_rows_next(rows - r);
      if (next == 6) mz_key_floats_6(tile, head_dim, query + r, to);
      else mz_key_floats_4(tile, head_dim, query + r, to);
      r += next;
    }
  }
}

#define MZ_VALUE_TOKENS 64u
static inline void mz_values(mz_bytes values, uint begin, uint end, uint rows,
                             __private const float* scores, __private const float* scale,
                             __private float* sums, uint stride, mz_bytes ahead) {
  for (uint r = 0; r < rows; ++r) {
    for (uint i = 0; i < 4; ++i) {
      vstore8(vload8(i, sums + r * stride) * scale[r], i, sums + r * stride);
    }
  }
  if (rows == 1) return mz_values_1(values, begin, end, scores, sums, stride, ahead);
  if (rows == 2) return mz_values_2(values, begin, end, scores, sums, stride, ahead);
  if (rows <= 4) return mz_values_4(values, begin, end, scores, sums, stride, ahead);
  float tile[MZ_VALUE_TOKENS * 32] __attribute__((aligned(64)));
  for (uint first = begin; first < end; first += MZ_VALUE_TOKENS) {
    const uint count = min(MZ_VALUE_TOKENS, end - first);
    for (uint t = 0; t < count; ++t) {
      MZ_PREFETCH(ahead + (size_t)(first + t) * 64);
      MZ_HALVES_4(values + (size_t)(first + t) * 64)
      vstore8(v0, 4 * t, tile);
      vstore8(v1, 4 * t + 1, tile);
      vstore8(v2, 4 * t + 2, tile);
      vstore8(v3, 4 * t + 3, tile);
    }
    for (uint r = 0; r < rows;) {
      const uint next = mz_rows_next(rows - r);
      __private const float* p = scores + r * MZ_CHUNK_TOKENS + first;
      if (next == 6) mz_value_floats_6(tile, count, p, sums + r * stride, stride);
      else mz_value_floats_4(tile, count, p, sums + r * stride, stride);
      r += next;
    }
  }
}

#endif
