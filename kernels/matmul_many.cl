// Y = X·Wᵀ for many tokens: lanes are tokens. A work-item takes 32 weight rows × up to 128 tokens;
// it dequantises 256 columns of its rows into private floats, then runs 8 rows × 32 tokens of
// accumulators over them. X comes packed by mz_pack: [token/32][column][32 tokens], zeros behind
// the last token. Y is [tokens][rows]. Flags: see mz_finish_value.

#define MZ_MANY_ROWS 32u
#define MZ_MANY_COLUMNS 256u
#define MZ_MANY_TOKENS 128u

// X [tokens][columns] to the packed form; one work-item per (32 tokens,
// 64 columns).
MZ_KERNEL void mz_pack(__global const int* stop, __global const float* x, __global float* packed,
                      uint columns, uint tokens) {
  const uint first = get_global_id(0) * 32u;
  const uint begin = get_global_id(1) * 64u;
  if (mz_stopped(stop) || first >= tokens || begin >= columns) return;
  const uint end = min(columns, begin + 64u);
  const uint valid = min(32u, tokens - first);
  __global float* out = packed + (ulong)first * columns;
  // By way of a private tile: rows a power of two apart evict each other from the cache.
  __private float tile[32 * 16] __attribute__((aligned(64)));
  for (uint column = begin; column < end; column += 16) {
    for (uint t = 0; t < valid; ++t) {
      vstore16(vload16(0, x + (ulong)(first + t) * columns + column), t, tile);
    }
    for (uint t = valid; t < 32; ++t) vstore16((float16)(0.0f), t, tile);
    for (uint c = 0; c < 16; ++c) {
      for (uint t = 0; t < 32; ++t) out[(column + c) * 32 + t] = tile[t * 16 + c];
    }
  }
}

#define MZ_MANY_LOAD(I)                       \
  float16 a##I = vload16(2 * I, sums);        \
  float16 b##I = vload16(2 * I + 1, sums);
#define MZ_MANY_STORE(I)                      \
  vstore16(a##I, 2 * I, sums);                \
  vstore16(b##I, 2 * I + 1, sums);
#define MZ_MANY_STEP(I)                                               \
  {                                                                   \
    const float16 w = (float16)(weights[I * MZ_MANY_COLUMNS + k]);    \
    a##I = mz_fma16(w, x0, a##I);                                     \
    b##I = mz_fma16(w, x1, b##I);                                     \
  }

// sums[8][32] += weights[8][count] · x[count][32]
static inline void mz_many_tile(__private const float* weights, __global const float* x, uint count,
                                __private float* sums) {
  MZ_EIGHT(MZ_MANY_LOAD)
  for (uint k = 0; k < count; ++k) {
    const float16 x0 = vload16(2 * k, x);
    const float16 x1 = vload16(2 * k + 1, x);
    MZ_EIGHT(MZ_MANY_STEP)
  }
  MZ_EIGHT(MZ_MANY_STORE)
}

MZ_KERNEL void mz_matmul_many(__global const int* stop, __global const uchar* unit, ulong offset,
                             ulong bias_offset, ulong row_bytes, uint type, uint columns, uint rows,
                             uint tokens, __global const float* packed, __global float* y,
                             uint flags) {
  const uint row = get_global_id(0) * MZ_MANY_ROWS;
  const uint token = get_global_id(1) * MZ_MANY_TOKENS;
  if (mz_stopped(stop) || row >= rows || token >= tokens) return;
  const uint row_count = min(MZ_MANY_ROWS, rows - row);
  const uint token_count = min(MZ_MANY_TOKENS, tokens - token);
  const uint octets = (row_count + 7) / 8;
  const uint groups = (token_count + 31) / 32;
  __private float weights[MZ_MANY_ROWS * MZ_MANY_COLUMNS] __attribute__((aligned(64)));
  // [token group][row][32 tokens]
  __private float sums[MZ_MANY_TOKENS * MZ_MANY_ROWS] __attribute__((aligned(64)));
  for (uint i = 0; i < groups * MZ_MANY_ROWS * 2; ++i) vstore16((float16)(0.0f), i, sums);

  for (uint column = 0; column < columns; column += MZ_MANY_COLUMNS) {
    const uint count = min(MZ_MANY_COLUMNS, columns - column);
    for (uint r = 0; r < octets * 8; ++r) {
      // Rows past the end repeat the last one; their sums are not stored.
      mz_bytes source = unit + offset + (ulong)min(row + r, rows - 1) * row_bytes;
      mz_dequantise(type, source, column / 32, count / 32, weights + r * MZ_MANY_COLUMNS);
    }
    for (uint g = 0; g < groups; ++g) {
      __global const float* x = packed + (ulong)(token + g * 32) * columns + (ulong)column * 32;
      for (uint o = 0; o < octets; ++o) {
        mz_many_tile(weights + o * 8 * MZ_MANY_COLUMNS, x, count,
                     sums + (g * MZ_MANY_ROWS + o * 8) * 32);
      }
    }
  }
  for (uint t = 0; t < token_count; ++t) {
    __global float* out = y + (ulong)(token + t) * rows + row;
    __private const float* in = sums + (t / 32) * MZ_MANY_ROWS * 32 + t % 32;
    for (uint r = 0; r < row_count; ++r) {
      mz_finish_value(out + r, in[r * 32], unit, bias_offset, row + r, flags);
    }
  }
}
