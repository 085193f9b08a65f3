// RMSNorm of rows: out = x / sqrt(mean(x²) + epsilon) · weight, one work-item per row.
// row_map (where use_map) picks the input rows; `add` adds to out instead of overwriting it (norms
// behind a block). Serves whole tokens and, with columns = head_dim, single heads. May run in place.
static inline void mz_rms_norm_row(__global const float* x, __global float* y,
                                   __global const float* weight, uint columns, float epsilon,
                                   uint add) {
  const uint vectors = columns / 16;
  float16 squares = (float16)(0.0f);
  for (uint i = 0; i < vectors; ++i) {
    const float16 v = vload16(i, x);
    squares = mz_fma16(v, v, squares);
  }
  float sum = mz_sum16(squares);
  for (uint i = vectors * 16; i < columns; ++i) sum = mz_fma(x[i], x[i], sum);
  const float scale = 1.0f / sqrt(sum / (float)columns + epsilon);
  for (uint i = 0; i < vectors; ++i) {
    const float16 v = vload16(i, x) * scale * vload16(i, weight);
    vstore16(add ? vload16(i, y) + v : v, i, y);
  }
  for (uint i = vectors * 16; i < columns; ++i) {
    const float v = x[i] * scale * weight[i];
    y[i] = add ? y[i] + v : v;
  }
}

#if !MZ_CPU
MZ_KERNEL void mz_rms_norm(__global const int* stop, __global const float* in, __global float* out,
                          __global const uchar* unit, ulong weight_offset, uint columns, uint rows,
                          float epsilon, __global const uint* row_map, uint use_map, uint add) {
  const uint row = get_global_id(0);
  if (mz_stopped(stop) || row >= rows) return;
  const uint from = use_map ? row_map[row] : row;
  mz_rms_norm_row(in + (ulong)from * columns, out + (ulong)row * columns,
                  (__global const float*)(unit + weight_offset), columns, epsilon, add);
}
#endif
