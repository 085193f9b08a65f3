// Input embedding: the slice's raw rows, in the file's own type, to floats times `scale`.
// One work-item per token.
static inline void mz_embed_item(__global const uchar* rows, ulong row_bytes, uint type,
                                 uint columns, uint tokens, float scale, __global float* hidden,
                                 uint token) {
  if (token >= tokens) return;
  mz_bytes row = rows + (ulong)token * row_bytes;
  __global float* out = hidden + (ulong)token * columns;
  __private float values[32];
  for (uint b = 0; b < columns / 32; ++b) {
    mz_dequantise(type, row, b, 1, values);
    vstore16(vload16(0, values) * scale, 0, out + b * 32);
    vstore16(vload16(1, values) * scale, 1, out + b * 32);
  }
}

#if !MZ_CPU
MZ_KERNEL void mz_embed(__global const int* stop, __global const uchar* rows, ulong row_bytes,
                       uint type, uint columns, uint tokens, float scale, __global float* hidden) {
  if (mz_stopped(stop)) return;
  mz_embed_item(rows, row_bytes, type, columns, tokens, scale, hidden, get_global_id(0));
}
#endif
