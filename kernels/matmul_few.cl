// Y = X·Wᵀ for a few tokens (2 … 16): 2 weight rows × 8 tokens of accumulators, 16 lanes along the
// columns; each block of weights is dequantised once per 8 tokens. Y is [tokens][rows].
// Arguments as in matmul_row.cl; rows_per_item is even.

#define MZ_FEW_TOKEN(T)                                   \
  {                                                       \
    const float16 lo = vload16(2 * b, x##T);              \
    const float16 hi = vload16(2 * b + 1, x##T);          \
    a##T = mz_fma16(u0, lo, a##T);                        \
    c##T = mz_fma16(v0, lo, c##T);                        \
    a##T = mz_fma16(u1, hi, a##T);                        \
    c##T = mz_fma16(v1, hi, c##T);                        \
  }

#define MZ_FEW_CASE(ID, FUNCTION)                         \
  case ID:                                                \
    if (!(MZ_PRODUCT_TYPES >> ID & 1)) break;             \
    for (uint b = 0; b < blocks; ++b) {                   \
      __private float w[32];                              \
      FUNCTION(r0, b, w);                                 \
      const float16 u0 = vload16(0, w);                   \
      const float16 u1 = vload16(1, w);                   \
      FUNCTION(r1, b, w);                                 \
      const float16 v0 = vload16(0, w);                   \
      const float16 v1 = vload16(1, w);                   \
      MZ_EIGHT(MZ_FEW_TOKEN)                              \
    }                                                     \
    break;

#define MZ_FEW_INPUT(T) \
  __global const float* x##T = x + (ulong)min(token + T, tokens - 1) * columns;
#define MZ_FEW_ZERO(T) float16 a##T = (float16)(0.0f), c##T = a##T;
#define MZ_FEW_FINISH(T)                                                                          \
  if (token + T < tokens) {                                                                       \
    __global float* out = y + (ulong)(token + T) * rows + row;                                    \
    mz_finish_value(out, mz_sum16(a##T), unit, bias_offset, row, flags);                          \
    if (row + 1 < last) {                                                                         \
      mz_finish_value(out + 1, mz_sum16(c##T), unit, bias_offset, row + 1, flags);                \
    }                                                                                             \
  }

static inline void mz_matmul_few_item(mz_bytes unit, ulong offset, ulong bias_offset,
                                      ulong row_bytes, uint type, uint columns, uint rows,
                                      uint tokens, __global const float* x, __global float* y,
                                      uint rows_per_item, uint flags, uint item) {
  const uint first = item * rows_per_item;
  if (first >= rows) return;
  const uint last = min(rows, first + rows_per_item);
  const uint blocks = columns / 32;
  for (uint token = 0; token < tokens; token += 8) {
    MZ_EIGHT(MZ_FEW_INPUT)
    for (uint row = first; row < last; row += 2) {
      mz_bytes r0 = unit + offset + row * row_bytes;
      mz_bytes r1 = unit + offset + min(row + 1, rows - 1) * row_bytes;
      MZ_EIGHT(MZ_FEW_ZERO)
      switch (type) { MZ_FOR_EACH_TYPE(MZ_FEW_CASE) default: break; }
      MZ_EIGHT(MZ_FEW_FINISH)
    }
  }
}

#if !MZ_CPU
MZ_KERNEL void mz_matmul_few(__global const int* stop, __global const uchar* unit, ulong offset,
                            ulong bias_offset, ulong row_bytes, uint type, uint columns, uint rows,
                            uint tokens, __global const float* x, __global float* y,
                            uint rows_per_item, uint flags) {
  if (mz_stopped(stop)) return;
  mz_matmul_few_item(unit, offset, bias_offset, row_bytes, type, columns, rows, tokens, x, y,
                     rows_per_item, flags, get_global_id(0));
}
#endif
