// Y = X·Wᵀ for many tokens: lanes are tokens. A work-item takes 32 weight rows × up to 128 tokens;
// it dequantises 256 columns of its rows into private floats, then runs 8 rows × 32 tokens of
// accumulators over them (MZ_NARROW: 24 rows, of which 6 × 16 tokens at a time). X comes packed by
// mz_pack: [token/32][column][32 tokens], zeros behind the last token. Y is [tokens][rows]. Flags:
// see mz_finish_value.

#if MZ_NARROW
#define MZ_MANY_ROWS 24u
#define MZ_MANY_TILE 6u  // rows
#else
#define MZ_MANY_ROWS 32u
#define MZ_MANY_TILE 8u
#endif
#define MZ_MANY_COLUMNS 256u
#define MZ_MANY_TOKENS 128u

// X [tokens][columns] to the packed form; one work-item per (32 tokens,
// 64 columns).
static inline void mz_pack_item(__global const float* x, __global float* packed, uint columns,
                                uint tokens, uint token_block, uint column_block) {
  const uint first = token_block * 32u;
  const uint begin = column_block * 64u;
  if (first >= tokens || begin >= columns) return;
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

#if MZ_NARROW
typedef float8 mz_many;
#define MZ_MANY_EACH(F) MZ_SIX(F)
static inline mz_many mz_many_load(uint i, __private const float* p) { return vload8(i, p); }
static inline mz_many mz_many_x(uint i, __global const float* p) { return vload8(i, p); }
static inline void mz_many_store(mz_many v, uint i, __private float* p) { vstore8(v, i, p); }
static inline mz_many mz_many_fma(mz_many a, mz_many b, mz_many c) { return mz_fma8(a, b, c); }
#else
typedef float16 mz_many;
#define MZ_MANY_EACH(F) MZ_EIGHT(F)
static inline mz_many mz_many_load(uint i, __private const float* p) { return vload16(i, p); }
static inline mz_many mz_many_x(uint i, __global const float* p) { return vload16(i, p); }
static inline void mz_many_store(mz_many v, uint i, __private float* p) { vstore16(v, i, p); }
static inline mz_many mz_many_fma(mz_many a, mz_many b, mz_many c) { return mz_fma16(a, b, c); }
#endif
#define MZ_MANY_LANES ((uint)(sizeof(mz_many) / sizeof(float)))

#define MZ_MANY_LOAD(I)                                         \
  mz_many a##I = mz_many_load(0, sums + I * 32 + token);        \
  mz_many b##I = mz_many_load(1, sums + I * 32 + token);
#define MZ_MANY_STORE(I)                                        \
  mz_many_store(a##I, 0, sums + I * 32 + token);                \
  mz_many_store(b##I, 1, sums + I * 32 + token);
#define MZ_MANY_STEP(I)                                         \
  {                                                             \
    const mz_many w = (mz_many)(weights[I * MZ_MANY_COLUMNS + k]); \
    a##I = mz_many_fma(w, x0, a##I);                            \
    b##I = mz_many_fma(w, x1, b##I);                            \
  }

// sums[MZ_MANY_TILE][32] += weights[MZ_MANY_TILE][count] · x[count][32]
static inline void mz_many_tile(__private const float* weights, __global const float* x, uint count,
                                __private float* sums) {
  for (uint token = 0; token < 32; token += 2 * MZ_MANY_LANES) {
    MZ_MANY_EACH(MZ_MANY_LOAD)
    for (uint k = 0; k < count; ++k) {
      const mz_many x0 = mz_many_x(0, x + k * 32 + token);
      const mz_many x1 = mz_many_x(1, x + k * 32 + token);
      MZ_MANY_EACH(MZ_MANY_STEP)
    }
    MZ_MANY_EACH(MZ_MANY_STORE)
  }
}

// sums [4 rows][stride tokens] to rows [row, row + 4) of y [tokens][rows], four values at once.
static inline void mz_store_rows(__private const float* sums, uint stride, uint tokens,
                                  __global float* y, uint rows, uint row, mz_bytes unit,
                                  ulong bias_offset, uint flags) {
  if (row + 4 > rows) {
    for (uint t = 0; t < tokens; ++t) {
      for (uint r = row; r < rows; ++r) {
        mz_finish_value(y + (size_t)t * rows + r, sums[(r - row) * stride + t], unit, bias_offset,
                        r, flags);
      }
    }
    return;
  }
  float4 bias = (float4)(0.0f);
  if (flags & 2) bias = vload4(0, (__global const float*)(unit + bias_offset) + row);
  uint t = 0;
  for (; t + 4 <= tokens; t += 4) {
    const float4 a = *(__private const float4*)(sums + t);
    const float4 b = *(__private const float4*)(sums + stride + t);
    const float4 c = *(__private const float4*)(sums + 2 * stride + t);
    const float4 e = *(__private const float4*)(sums + 3 * stride + t);
    const float4 ab0 = (float4)(a.x, b.x, a.y, b.y), ab1 = (float4)(a.z, b.z, a.w, b.w);
    const float4 ce0 = (float4)(c.x, e.x, c.y, e.y), ce1 = (float4)(c.z, e.z, c.w, e.w);
#define MZ_STORE_TOKEN(T, V)                                       \
  {                                                                \
    __global float* to = y + (size_t)(t + T) * rows + row;         \
    const float4 v = (V) + bias;                                   \
    vstore4((flags & 1) ? vload4(0, to) + v : v, 0, to);           \
  }
    MZ_STORE_TOKEN(0, ((float4)(ab0.lo, ce0.lo)))
    MZ_STORE_TOKEN(1, ((float4)(ab0.hi, ce0.hi)))
    MZ_STORE_TOKEN(2, ((float4)(ab1.lo, ce1.lo)))
    MZ_STORE_TOKEN(3, ((float4)(ab1.hi, ce1.hi)))
  }
  for (; t < tokens; ++t) {
    MZ_STORE_TOKEN(0, ((float4)(sums[t], sums[stride + t], sums[2 * stride + t],
                                sums[3 * stride + t])))
  }
}

static inline void mz_matmul_many_item(mz_bytes unit, ulong offset, ulong bias_offset,
                                       ulong row_bytes, uint type, uint columns, uint rows,
                                       uint tokens, __global const float* packed,
                                       __global float* y, uint flags, uint row_block,
                                       uint token_block) {
  const uint row = row_block * MZ_MANY_ROWS;
  const uint token = token_block * MZ_MANY_TOKENS;
  if (row >= rows || token >= tokens) return;
  const uint row_count = min(MZ_MANY_ROWS, rows - row);
  const uint token_count = min(MZ_MANY_TOKENS, tokens - token);
  const uint tiles = (row_count + MZ_MANY_TILE - 1) / MZ_MANY_TILE;
  const uint groups = (token_count + 31) / 32;
  __private float weights[MZ_MANY_ROWS * MZ_MANY_COLUMNS] __attribute__((aligned(64)));
  // [token group][row][32 tokens]
  __private float sums[MZ_MANY_TOKENS * MZ_MANY_ROWS] __attribute__((aligned(64)));
  for (uint i = 0; i < groups * MZ_MANY_ROWS * 2; ++i) vstore16((float16)(0.0f), i, sums);

  for (uint column = 0; column < columns; column += MZ_MANY_COLUMNS) {
    const uint count = min(MZ_MANY_COLUMNS, columns - column);
    for (uint r = 0; r < tiles * MZ_MANY_TILE; ++r) {
      // Rows past the end repeat the last one; their sums are not stored.
      mz_bytes source = unit + offset + (ulong)min(row + r, rows - 1) * row_bytes;
      mz_dequantise(type, source, column / 32, count / 32, weights + r * MZ_MANY_COLUMNS);
    }
    for (uint g = 0; g < groups; ++g) {
      __global const float* x = packed + (ulong)(token + g * 32) * columns + (ulong)column * 32;
      for (uint r = 0; r < row_count; r += MZ_MANY_TILE) {
        mz_many_tile(weights + r * MZ_MANY_COLUMNS, x, count, sums + (g * MZ_MANY_ROWS + r) * 32);
      }
    }
  }
  for (uint g = 0; g < groups; ++g) {
    for (uint r = 0; r < row_count; r += 4) {
      mz_store_rows(sums + (g * MZ_MANY_ROWS + r) * 32, 32, min(32u, token_count - g * 32),
                    y + (ulong)(token + g * 32) * rows, rows, row + r, unit, bias_offset, flags);
    }
  }
}

#if !MZ_CPU
MZ_KERNEL void mz_pack(__global const int* stop, __global const float* x, __global float* packed,
                      uint columns, uint tokens) {
  if (mz_stopped(stop)) return;
  mz_pack_item(x, packed, columns, tokens, get_global_id(0), get_global_id(1));
}
MZ_KERNEL void mz_matmul_many(__global const int* stop, __global const uchar* unit, ulong offset,
                             ulong bias_offset, ulong row_bytes, uint type, uint columns, uint rows,
                             uint tokens, __global const float* packed, __global float* y,
                             uint flags) {
  if (mz_stopped(stop)) return;
  mz_matmul_many_item(unit, offset, bias_offset, row_bytes, type, columns, rows, tokens, packed, y,
                      flags, get_global_id(0), get_global_id(1));
}
#endif
