// y = W·x for one token (decoding): 4 weight rows at a time, 16 lanes along the columns.
// Work-item g computes rows [g·rows_per_item, …), a multiple of 4. Rows lie in the file's own layout.
// flags: see mz_finish_value.

// Four rows ahead; a row's block of 32 values is 64 bytes where it matters most (FP16). Past the
// last row it is a hint and no more.
#define MZ_ROW_AHEAD 64u

#define MZ_ROW_STEP(I, FUNCTION)                          \
  FUNCTION(r##I, b, w);                                   \
  a##I = mz_fma16(vload16(0, w), x0, a##I);               \
  a##I = mz_fma16(vload16(1, w), x1, a##I);

#define MZ_ROW_CASE(ID, FUNCTION)                         \
  case ID:                                                \
    if (!(MZ_PRODUCT_TYPES >> ID & 1)) break;             \
    for (uint b = 0; b < blocks; ++b) {                   \
      MZ_PREFETCH(r0 + 4 * row_bytes + b * MZ_ROW_AHEAD); \
      MZ_PREFETCH(r1 + 4 * row_bytes + b * MZ_ROW_AHEAD); \
      MZ_PREFETCH(r2 + 4 * row_bytes + b * MZ_ROW_AHEAD); \
      MZ_PREFETCH(r3 + 4 * row_bytes + b * MZ_ROW_AHEAD); \
      const float16 x0 = vload16(2 * b, x);               \
      const float16 x1 = vload16(2 * b + 1, x);           \
      __private float w[32];                              \
      MZ_ROW_STEP(0, FUNCTION)                            \
      MZ_ROW_STEP(1, FUNCTION)                            \
      MZ_ROW_STEP(2, FUNCTION)                            \
      MZ_ROW_STEP(3, FUNCTION)                            \
    }                                                     \
    break;

static inline void mz_matmul_row_item(mz_bytes unit, ulong offset, ulong bias_offset,
                                      ulong row_bytes, uint type, uint columns, uint rows,
                                      __global const float* x, __global float* y,
                                      uint rows_per_item, uint flags, uint item) {
  const uint first = item * rows_per_item;
  if (first >= rows) return;
  const uint last = min(rows, first + rows_per_item);
  const uint blocks = columns / 32;
  for (uint row = first; row < last; row += 4) {
    mz_bytes r0 = unit + offset + row * row_bytes;
    mz_bytes r1 = unit + offset + min(row + 1, rows - 1) * row_bytes;
    mz_bytes r2 = unit + offset + min(row + 2, rows - 1) * row_bytes;
    mz_bytes r3 = unit + offset + min(row + 3, rows - 1) * row_bytes;
    float16 a0 = (float16)(0.0f), a1 = a0, a2 = a0, a3 = a0;
    switch (type) { MZ_FOR_EACH_TYPE(MZ_ROW_CASE) default: break; }
    mz_finish_value(y + row, mz_sum16(a0), unit, bias_offset, row, flags);
    if (row + 1 < last) mz_finish_value(y + row + 1, mz_sum16(a1), unit, bias_offset, row + 1, flags);
    if (row + 2 < last) mz_finish_value(y + row + 2, mz_sum16(a2), unit, bias_offset, row + 2, flags);
    if (row + 3 < last) mz_finish_value(y + row + 3, mz_sum16(a3), unit, bias_offset, row + 3, flags);
  }
}

#if !MZ_CPU
MZ_KERNEL void mz_matmul_row(__global const int* stop, __global const uchar* unit, ulong offset,
                            ulong bias_offset, ulong row_bytes, uint type, uint columns, uint rows,
                            __global const float* x, __global float* y, uint rows_per_item,
                            uint flags) {
  if (mz_stopped(stop)) return;
  mz_matmul_row_item(unit, offset, bias_offset, row_bytes, type, columns, rows, x, y,
                     rows_per_item, flags, get_global_id(0));
}
#endif
