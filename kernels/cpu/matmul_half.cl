// Y = X·Wᵀ for FP16 weights and 2 … 16 tokens: 3 weight rows × as many tokens as registers hold,
// lanes along the columns. X as mz_pack_few leaves it. Other sizes: matmul_row.cl, matmul_many.cl.
// MZ_NARROW: for all weights that are multiplied as floats; converted, 512 columns at a time.

#if MZ_NARROW
#define MZ_HALF_TOKENS 4u
#define MZ_HALF_EACH(F) MZ_FOUR(F)
#define MZ_HALF_SUM(V) mz_sum8(V)
#define MZ_HALF_AT i
#define MZ_HALF_FEW_TYPES MZ_PRODUCT_TYPES
#else
#define MZ_HALF_TOKENS 8u
#define MZ_HALF_EACH(F) MZ_EIGHT(F)
#define MZ_HALF_SUM(V) mz_sum16(V)
#define MZ_HALF_AT 0
#define MZ_HALF_FEW_TYPES (MZ_PRODUCT_TYPES & (1u << 1))
#endif

#define MZ_HALF_ZERO(T) mz_f a##T = (mz_f)(0.0f), b##T = a##T, c##T = a##T;
#define MZ_HALF_STEP(T)                                               \
  {                                                                   \
    const mz_f v = *(__global const mz_f*)(to + T * 16 + MZ_HALF_AT); \
    a##T = mz_fma_v(w0, v, a##T);                                     \
    b##T = mz_fma_v(w1, v, b##T);                                     \
    c##T = mz_fma_v(w2, v, c##T);                                     \
  }
#define MZ_HALF_FINISH(T)                                                                     \
  if (token + T < tokens) {                                                                   \
    __global float* out = y + (size_t)(token + T) * rows + row;                               \
    mz_finish_value(out, MZ_HALF_SUM(a##T), unit, bias_offset, row, flags);                   \
    if (row + 1 < last)                                                                       \
      mz_finish_value(out + 1, MZ_HALF_SUM(b##T), unit, bias_offset, row + 1, flags);         \
    if (row + 2 < last)                                                                       \
      mz_finish_value(out + 2, MZ_HALF_SUM(c##T), unit, bias_offset, row + 2, flags);         \
  }

#if MZ_NARROW
#define MZ_HALF_COLUMNS 512u
#define MZ_HALF_LOAD(T)                   \
  mz_f a##T = sums[3 * (token + T)];      \
  mz_f b##T = sums[3 * (token + T) + 1];  \
  mz_f c##T = sums[3 * (token + T) + 2];
#define MZ_HALF_STORE(T)                  \
  sums[3 * (token + T)] = a##T;           \
  sums[3 * (token + T) + 1] = b##T;       \
  sums[3 * (token + T) + 2] = c##T;

// Rows behind the last one repeat it; their sums are not stored.
static inline void mz_half_few_item(uint type, mz_bytes weights, ulong row_bytes, uint columns,
                                    uint rows, uint tokens, __global const float* x,
                                    __global float* y, mz_bytes unit, ulong bias_offset, uint flags,
                                    uint rows_per_item, uint item) {
  const uint last = min(rows, (item + 1) * rows_per_item);
  float w[3 * MZ_HALF_COLUMNS] __attribute__((aligned(64)));
  mz_f sums[3 * 16];
  for (uint row = item * rows_per_item; row < last; row += 3) {
    for (uint i = 0; i < 3 * 16; ++i) sums[i] = (mz_f)(0.0f);
    for (uint first = 0; first < columns; first += MZ_HALF_COLUMNS) {
      const uint count = min(MZ_HALF_COLUMNS, columns - first);
      for (uint r = 0; r < 3; ++r) {
        mz_bytes from = weights + min(row + r, rows - 1) * row_bytes;
        // Three rows ahead; may lie behind the tensor, which a prefetch does not mind.
        mz_bytes ahead = from + 3 * row_bytes + row_bytes * first / columns;
        for (uint at = 0; at < row_bytes * count / columns; at += 64) MZ_PREFETCH(ahead + at);
        mz_dequantise(type, from, first / 32, count / 32, w + r * MZ_HALF_COLUMNS);
      }
      for (uint token = 0; token < tokens; token += MZ_HALF_TOKENS) {
        __global const float* to =
            x + (size_t)(token / 8) * columns * 8 + (size_t)first * 8 + token % 8 * 16;
        MZ_HALF_EACH(MZ_HALF_LOAD)
        for (uint k = 0; k < count; k += 16, to += 128) {
#pragma unroll
          for (uint i = 0; i < 16; i += 8) {
            const mz_f w0 = vload8(0, w + k + i), w1 = vload8(0, w + MZ_HALF_COLUMNS + k + i);
            const mz_f w2 = vload8(0, w + 2 * MZ_HALF_COLUMNS + k + i);
            MZ_HALF_EACH(MZ_HALF_STEP)
          }
        }
        MZ_HALF_EACH(MZ_HALF_STORE)
      }
    }
    for (uint token = 0; token < tokens; token += MZ_HALF_TOKENS) {
      MZ_HALF_EACH(MZ_HALF_LOAD)
      MZ_HALF_EACH(MZ_HALF_FINISH)
    }
  }
}
#else
static inline void mz_half_few_item(uint type, mz_bytes weights, ulong row_bytes, uint columns,
                                    uint rows, uint tokens, __global const float* x,
                                    __global float* y, mz_bytes unit, ulong bias_offset, uint flags,
                                    uint rows_per_item, uint item) {
  const uint last = min(rows, (item + 1) * rows_per_item);
  for (uint row = item * rows_per_item; row < last; row += 3) {
    mz_bytes r0 = weights + row * row_bytes;
    mz_bytes r1 = weights + min(row + 1, rows - 1) * row_bytes;
    mz_bytes r2 = weights + min(row + 2, rows - 1) * row_bytes;
    for (uint token = 0; token < tokens; token += MZ_HALF_TOKENS) {
      __global const float* to = x + (size_t)(token / 8) * columns * 8 + token % 8 * 16;
      MZ_HALF_EACH(MZ_HALF_ZERO)
      for (uint k = 0; k < columns; k += MZ_WIDTH) {
        const mz_f w0 = mz_load_half16(r0 + k * 2);
        const mz_f w1 = mz_load_half16(r1 + k * 2);
        const mz_f w2 = mz_load_half16(r2 + k * 2);
        if (k % 32 == 0) {
          // Three rows ahead; may lie behind the tensor, which a prefetch does not mind.
          MZ_PREFETCH(r0 + 3 * row_bytes + k * 2);
          MZ_PREFETCH(r1 + 3 * row_bytes + k * 2);
          MZ_PREFETCH(r2 + 3 * row_bytes + k * 2);
        }
        MZ_HALF_EACH(MZ_HALF_STEP)
        to += 128;
      }
      MZ_HALF_EACH(MZ_HALF_FINISH)
    }
  }
}
#endif
