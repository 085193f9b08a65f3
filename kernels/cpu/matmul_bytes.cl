// Y = X·Wᵀ with weights as unsigned and activations as signed bytes: exact integer products within
// a block of 32 columns, floats between blocks. Y is [tokens][rows].

// ---- One token

// Sums of `count` unpacked blocks with the packed token, from its block `first` on.
static inline void mz_bytes_dot(uint type, __private const uchar* u, __private const float* d,
                                __private const float* m, __global const uchar* x, uint blocks,
                                uint first, uint count, __private float8* sums,
                                __private float* minima) {
  __global const float* xd = (__global const float*)(x + blocks * 32) + first;
  __global const float* xs = xd + blocks;
  __global const float* xh = xs + blocks;
  __global const uchar* q = x + first * 32;
  float8 a0 = *sums, a1 = (float8)(0.0f);
  float low = *minima;
#define MZ_DOT_BLOCK(B)                                                          \
  __builtin_convertvector(mz_dot8((int8)(0), *(__private const int8*)(u + (B) * 32), \
                                  *(__global const int8*)(q + (B) * 32)), float8)
  if ((MZ_BYTE_TYPES >> 14 & 1) && type == 14) {
    for (uint b = 0; b < count; ++b) {
      const float8 scales =
          (float8)((float4)(d[2 * b] * xd[b]), (float4)(d[2 * b + 1] * xd[b]));
      a0 = mz_fma8(MZ_DOT_BLOCK(b), scales, a0);
      low = mz_fma(m[2 * b], xh[b], low);
      low = mz_fma(m[2 * b + 1], xs[b] - xh[b], low);
    }
  } else {
    uint b = 0;
    for (; b + 2 <= count; b += 2) {
      a0 = mz_fma8(MZ_DOT_BLOCK(b), (float8)(d[b] * xd[b]), a0);
      a1 = mz_fma8(MZ_DOT_BLOCK(b + 1), (float8)(d[b + 1] * xd[b + 1]), a1);
      low = mz_fma(m[b], xs[b], low);
      low = mz_fma(m[b + 1], xs[b + 1], low);
    }
    if (b < count) {
      a0 = mz_fma8(MZ_DOT_BLOCK(b), (float8)(d[b] * xd[b]), a0);
      low = mz_fma(m[b], xs[b], low);
    }
  }
  *sums = a0 + a1;
  *minima = low;
}

// Types of 32 values with one scale: their bytes never leave the registers.

#define MZ_ROW_BLOCKS 16u

#define MZ_SEGMENT 64u  // blocks

#if MZ_NARROW
// Vector instructions are what is short there, so the scales of a segment are collected by scalar
// ones: one segment ahead, so that none waits for the stores. ahead is [2][MZ_SEGMENT], and *turn
// says which half holds the segment to come. A word is d, and m in its upper half where it lies
// behind d; zeros up to a multiple of 8. Volatile, or compilers insert them into vectors one by one.
static inline void mz_scales_ahead(mz_bytes p, uint block_bytes, uint with_m, uint count,
                                   __private uint* ahead) {
  volatile __private uint* to = ahead;
  uint b = 0;
#pragma unroll 4
  for (; b < count; ++b, p += block_bytes) {
    to[b] = with_m ? *(__global const mz_uint1*)p : *(__global const mz_ushort1*)p;
  }
  for (; b % 8 != 0; ++b) to[b] = 0;
}
typedef _Float16 mz_halves8 __attribute__((ext_vector_type(8)));
static inline float8 mz_low_halves(uint8 words) {
  const ushort8 low = __builtin_convertvector(words & 0xFFFFu, ushort8);
  return __builtin_convertvector(__builtin_astype(low, mz_halves8), float8);
}

// FACTOR: m = FACTOR · d; 0: m lies behind d; 1: none.
#define MZ_BYTES_ROW_32(NAME, REGS, DOT, BLOCK_BYTES, FACTOR)                                     \
  static inline float NAME(mz_bytes row, uint columns, __global const uchar* x, uint planes,      \
                           mz_bytes next, __private uint* ahead, __private uint* turn) {          \
    const uint blocks = columns / 32;                                                             \
    float8 a0 = (float8)(0.0f), a1 = a0, minima = a0;                                             \
    float scales[MZ_SEGMENT] __attribute__((aligned(64)));                                        \
    for (uint first = 0; first < blocks; first += MZ_SEGMENT) {                                   \
      mz_bytes p = row + (size_t)first * BLOCK_BYTES;                                             \
      const uint count = min(MZ_SEGMENT, blocks - first);                                         \
      const uint left = blocks - first - count;                                                   \
      __private uint* words = ahead + *turn;                                                      \
      *turn ^= MZ_SEGMENT;                                                                        \
      mz_scales_ahead(left ? p + MZ_SEGMENT * BLOCK_BYTES : next, BLOCK_BYTES, FACTOR == 0,       \
                      min(MZ_SEGMENT, left ? left : blocks), ahead + *turn);                      \
      for (uint plane = 0; plane < planes; ++plane) {                                             \
        __global const uchar* xp = x + plane * MZ_ROW_PLANE(columns);                             \
        __global const float* xd = (__global const float*)(xp + blocks * 32) + first;             \
        __global const uchar* q = xp + first * 32;                                                \
        for (uint b = 0; b < count; b += 8) {                                                     \
          const uint8 w = *(__private uint8*)(words + b);                                         \
          const float8 d = mz_low_halves(w);                                                      \
          const float8 m = FACTOR == 0 ? mz_low_halves(w >> 16) : d * FACTOR;                     \
          *(__private float8*)(scales + b) = d * vload8(0, xd + b);                               \
          if (FACTOR <= 0) minima = mz_fma8(m, vload8(0, xd + blocks + b), minima);               \
        }                                                                                         \
        uint b = 0;                                                                               \
        for (; b + 2 <= count; b += 2) {                                                          \
          const int8 p0 = DOT((int8)(0), REGS(p + b * BLOCK_BYTES),                               \
                              *(__global const int8*)(q + b * 32));                               \
          const int8 p1 = DOT((int8)(0), REGS(p + (b + 1) * BLOCK_BYTES),                         \
                              *(__global const int8*)(q + b * 32 + 32));                          \
          a0 = mz_fma8(__builtin_convertvector(p0, float8), (float8)(scales[b]), a0);             \
          a1 = mz_fma8(__builtin_convertvector(p1, float8), (float8)(scales[b + 1]), a1);         \
        }                                                                                         \
        if (b < count) {                                                                          \
          const int8 p0 = DOT((int8)(0), REGS(p + b * BLOCK_BYTES),                               \
                              *(__global const int8*)(q + b * 32));                               \
          a0 = mz_fma8(__builtin_convertvector(p0, float8), (float8)(scales[b]), a0);             \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
    return mz_sum8(a0 + a1) + mz_sum8(minima);                                                    \
  }
#else
// Sixteen blocks at a time, then the rest. FACTOR: m = FACTOR · d; 0: m lies behind d; 1: none.
#define MZ_BYTES_ROW_32(NAME, REGS, DOT, BLOCK_BYTES, FACTOR)                                     \
  static inline float NAME(mz_bytes row, uint columns, __global const uchar* x, uint planes,      \
                           mz_bytes next, __private uint* ahead, __private uint* turn) {          \
    const uint blocks = columns / 32;                                                             \
    float8 a0 = (float8)(0.0f), a1 = a0;                                                          \
    float16 minima = (float16)(0.0f);                                                             \
    float low = 0.0f;                                                                             \
    float scales[MZ_ROW_BLOCKS] __attribute__((aligned(64)));                                     \
    ushort dh[MZ_ROW_BLOCKS] __attribute__((aligned(32)));                                        \
    ushort mh[MZ_ROW_BLOCKS] __attribute__((aligned(32)));                                        \
    uint first = 0;                                                                               \
    for (; first + MZ_ROW_BLOCKS <= blocks; first += MZ_ROW_BLOCKS) {                             \
      mz_bytes p = row + (size_t)first * BLOCK_BYTES;                                             \
      _Pragma("unroll") for (uint b = 0; b < MZ_ROW_BLOCKS; ++b) {                                \
        dh[b] = *(__global const mz_ushort1*)(p + b * BLOCK_BYTES);                               \
        if (FACTOR == 0) mh[b] = *(__global const mz_ushort1*)(p + b * BLOCK_BYTES + 2);          \
      }                                                                                           \
      const float16 d = __builtin_convertvector(*(__private mz_halves*)dh, float16);              \
      const float16 m =                                                                           \
          FACTOR == 0 ? __builtin_convertvector(*(__private mz_halves*)mh, float16) : d * FACTOR; \
      for (uint plane = 0; plane < planes; ++plane) {                                             \
        __global const uchar* xp = x + plane * MZ_ROW_PLANE(columns);                             \
        __global const float* xd = (__global const float*)(xp + blocks * 32) + first;             \
        *(__private float16*)scales = d * vload16(0, xd);                                         \
        if (FACTOR <= 0) minima = mz_fma16(m, vload16(0, xd + blocks), minima);                   \
        __global const uchar* q = xp + first * 32;                                                \
        for (uint b = 0; b < MZ_ROW_BLOCKS; b += 2) {                                             \
          const int8 p0 = DOT((int8)(0), REGS(p + b * BLOCK_BYTES),                               \
                                  *(__global const int8*)(q + b * 32));                           \
          const int8 p1 = DOT((int8)(0), REGS(p + (b + 1) * BLOCK_BYTES),                         \
                                  *(__global const int8*)(q + b * 32 + 32));                      \
          a0 = mz_fma8(__builtin_convertvector(p0, float8), (float8)(scales[b]), a0);             \
          a1 = mz_fma8(__builtin_convertvector(p1, float8), (float8)(scales[b + 1]), a1);         \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
    for (; first < blocks; ++first) {                                                             \
      mz_bytes p = row + (size_t)first * BLOCK_BYTES;                                             \
      const float d = mz_half_at(p);                                                              \
      const float m = FACTOR == 0 ? mz_half_at(p + 2) : d * FACTOR;                               \
      const int8 u = REGS(p);                                                                     \
      for (uint plane = 0; plane < planes; ++plane) {                                             \
        __global const uchar* xp = x + plane * MZ_ROW_PLANE(columns);                             \
        __global const float* xd = (__global const float*)(xp + blocks * 32) + first;             \
        const int8 p0 = DOT((int8)(0), u, *(__global const int8*)(xp + first * 32));              \
        a0 = mz_fma8(__builtin_convertvector(p0, float8), (float8)(d * xd[0]), a0);               \
        if (FACTOR <= 0) low = mz_fma(m, xd[blocks], low);                                        \
      }                                                                                           \
    }                                                                                             \
    return mz_sum8(a0 + a1) + (mz_sum16(minima) + low);                                           \
  }
#endif
#if MZ_ROW_BYTE_TYPES & (1u << 2)
MZ_BYTES_ROW_32(mz_row_q4_0, mz_regs_q4_0, mz_dot8, 18, -8.0f)
#endif
#if MZ_ROW_BYTE_TYPES & (1u << 3)
MZ_BYTES_ROW_32(mz_row_q4_1, mz_regs_q4_1, mz_dot8, 20, 0)
#endif
#if MZ_ROW_BYTE_TYPES & (1u << 6)
MZ_BYTES_ROW_32(mz_row_q5_0, mz_regs_q5_0, mz_dot8, 22, -16.0f)
#endif
#if MZ_ROW_BYTE_TYPES & (1u << 7)
MZ_BYTES_ROW_32(mz_row_q5_1, mz_regs_q5_1, mz_dot8, 24, 0)
#endif
#if MZ_ROW_BYTE_TYPES & (1u << 8)
#if MZ_VNNI
MZ_BYTES_ROW_32(mz_row_q8_0, mz_regs_q8_0, mz_dot8, 34, -128.0f)
#else
MZ_BYTES_ROW_32(mz_row_q8_0, mz_signed_q8_0, mz_dot8_signed, 34, 1)
#endif
#endif

// Row's product with the packed token; `next`: the row to follow. ahead, turn: mz_scales_ahead.
static inline float mz_bytes_row(uint type, mz_bytes row, uint columns, __global const uchar* x,
                                 uint planes, mz_bytes next, __private uint* ahead,
                                 __private uint* turn) {
#if MZ_ROW_BYTE_TYPES & (1u << 2)
  if (type == 2) return mz_row_q4_0(row, columns, x, planes, next, ahead, turn);
#endif
#if MZ_ROW_BYTE_TYPES & (1u << 3)
  if (type == 3) return mz_row_q4_1(row, columns, x, planes, next, ahead, turn);
#endif
#if MZ_ROW_BYTE_TYPES & (1u << 6)
  if (type == 6) return mz_row_q5_0(row, columns, x, planes, next, ahead, turn);
#endif
#if MZ_ROW_BYTE_TYPES & (1u << 7)
  if (type == 7) return mz_row_q5_1(row, columns, x, planes, next, ahead, turn);
#endif
#if MZ_ROW_BYTE_TYPES & (1u << 8)
  if (type == 8) return mz_row_q8_0(row, columns, x, planes, next, ahead, turn);
#endif
#if MZ_ROW_BYTE_TYPES & (7u << 12)
  const uint blocks = columns / 32;
  uchar u[MZ_ROW_BLOCKS * 32] __attribute__((aligned(64)));
  float d[MZ_ROW_BLOCKS * 2] __attribute__((aligned(64)));
  float m[MZ_ROW_BLOCKS * 2] __attribute__((aligned(64)));
  float8 sums = (float8)(0.0f);
  float minima = 0.0f;
  for (uint first = 0; first < blocks; first += MZ_ROW_BLOCKS) {
    const uint left = blocks - first;
    const uint count = left < MZ_ROW_BLOCKS ? left : MZ_ROW_BLOCKS;
    mz_unpack(type, row, first, count, u, d, m);
    for (uint plane = 0; plane < planes; ++plane) {
      mz_bytes_dot(type, u, d, m, x + plane * MZ_ROW_PLANE(columns), blocks, first, count, &sums,
                   &minima);
    }
  }
  return mz_sum8(sums) + minima;
#else
  return 0.0f;
#endif
}

static inline void mz_bytes_row_item(uint type, mz_bytes weights, ulong row_bytes, uint columns,
                                     uint rows, __global const uchar* x, __global float* y,
                                     mz_bytes unit, ulong bias_offset, uint flags, uint planes,
                                     uint rows_per_item, uint item) {
  const uint last = min(rows, (item + 1) * rows_per_item);
  uint ahead[2 * MZ_SEGMENT] __attribute__((aligned(64)));
  uint turn = 0;
  uint row = item * rows_per_item;
#if MZ_NARROW
  // Types of blocks of 256 do not look at it.
  if (row < last && type < 12) {
    mz_scales_ahead(weights + row * row_bytes, row_bytes / (columns / 32), type == 3 || type == 7,
                    min(MZ_SEGMENT, columns / 32), ahead);
  }
#endif
  for (; row < last; ++row) {
    mz_bytes w = weights + row * row_bytes;
    for (uint at = 0; at < row_bytes; at += 64) MZ_PREFETCH(w + MZ_AHEAD + at);
    const float sum = mz_bytes_row(type, w, columns, x, planes, row + 1 < last ? w + row_bytes : w,
                                   ahead, &turn);
    mz_finish_value(y + row, sum, unit, bias_offset, row, flags);
  }
}

// ---- Tiles of 4 weight rows × 1 or 2 vectors of lanes, over `count` blocks

#define MZ_R4(F) F(0) F(1) F(2) F(3)
#define MZ_BROADCAST_4(U) ((mz_i)(*(__private const int*)(U)))
#if MZ_WIDTH == 16
#define MZ_BROADCAST_8(U) (as_int16((long8)(*(__private const long*)(U))))
#endif

#if MZ_VNNI
#define MZ_SUMS_ZERO(I) mz_i a##I = (mz_i)(0), b##I = a##I;
#define MZ_DOT(A, W, X) A = mz_dot(A, W, X);
#define MZ_WIDEN_SUMS(I)
#define MZ_WIDEN_SUMS_1(I)
#else
#define MZ_SUMS_ZERO(I)                    \
  mz_i a##I = (mz_i)(0), b##I = a##I;      \
  mz_s a##I##s = (mz_s)((short)0), b##I##s = a##I##s;
// Summed in this order: compilers that make a tree of it run out of registers.
#define MZ_DOT(A, W, X)        \
  A##s += mz_pairs(W, X);      \
  __asm__("" : "+v"(A##s));
#define MZ_WIDEN_SUMS(I)                   \
  MZ_WIDEN_SUMS_1(I)                       \
  b##I = mz_widen(b##I, b##I##s);          \
  b##I##s = (mz_s)((short)0);
#define MZ_WIDEN_SUMS_1(I)                 \
  a##I = mz_widen(a##I, a##I##s);          \
  a##I##s = (mz_s)((short)0);
#endif

#define MZ_TILE_LOAD_2(I)                                                        \
  mz_f A##I = ((__private const mz_f*)(sums + I * stride))[0];                   \
  mz_f B##I = ((__private const mz_f*)(sums + I * stride))[1];
#define MZ_TILE_LOAD_1(I) mz_f A##I = ((__private const mz_f*)(sums + I * stride))[0];
#define MZ_TILE_STORE_2(I)                                                       \
  ((__private mz_f*)(sums + I * stride))[0] = A##I;                              \
  ((__private mz_f*)(sums + I * stride))[1] = B##I;
#define MZ_TILE_STORE_1(I) ((__private mz_f*)(sums + I * stride))[0] = A##I;
#define MZ_TILE_STEP_2(I)                                                        \
  {                                                                              \
    const mz_i w = MZ_BROADCAST_4(u##I + step * 4);                              \
    MZ_DOT(a##I, w, x0)                                                          \
    MZ_DOT(b##I, w, x1)                                                          \
  }
#define MZ_TILE_STEP_1(I) { MZ_DOT(a##I, MZ_BROADCAST_4(u##I + step * 4), x0) }
#define MZ_TILE_STEP_P(I) { MZ_DOT(a##I, MZ_BROADCAST_8(u##I + step * 8), x0) }
// Behind a block, or half of one: sums · d(weights) · d(tokens) + m(weights) · s(tokens).
#define MZ_TILE_SCALE_2(I)                                                       \
  {                                                                              \
    const mz_f dw = (mz_f)(d[I * scales + at]), mw = (mz_f)(m[I * scales + at]); \
    A##I = mz_fma_v(mz_to_float(a##I), dw * d0, A##I);                           \
    B##I = mz_fma_v(mz_to_float(b##I), dw * d1, B##I);                           \
    A##I = mz_fma_v(mw, s0, A##I);                                               \
    B##I = mz_fma_v(mw, s1, B##I);                                               \
  }
#define MZ_TILE_SCALE_1(I)                                                       \
  {                                                                              \
    const mz_f dw = (mz_f)(d[I * scales + at]), mw = (mz_f)(m[I * scales + at]); \
    A##I = mz_fma_v(mz_to_float(a##I), dw * d0, A##I);                           \
    A##I = mz_fma_v(mw, s0, A##I);                                               \
  }
#define MZ_TILE_ROWS(I) __private const uchar* u##I = u + I * bytes;

// bytes, scales: from one row of u, and of d and m, to the next. halves: 2 where a block has two
// scales. widen: steps between widenings (without VNNI).
#define MZ_TILE(NAME, V, STEPS, BLOCK, STEP, LOAD_X, LOAD_SCALES, WIDEN)                          \
  static inline void NAME(__private const uchar* u, uint bytes, __private const float* d,         \
                          __private const float* m, uint scales, __global const uchar* x,         \
                          size_t next, uint count, __private float* sums, uint stride,            \
                          uint halves, uint widen) {                                              \
    MZ_R4(MZ_TILE_ROWS)                                                                           \
    MZ_R4(MZ_TILE_LOAD_##V)                                                                       \
    for (uint b = 0; b < count; ++b) {                                                            \
      for (uint part = 0; part < halves; ++part) {                                                \
        MZ_R4(MZ_SUMS_ZERO)                                                                       \
        const uint end = (part + 1) * (STEPS / halves);                                           \
        _Pragma("unroll") for (uint step = part * (STEPS / halves); step < end; ++step) {         \
          LOAD_X                                                                                  \
          MZ_R4(STEP)                                                                             \
          if ((step + 1) % widen == 0) { MZ_R4(WIDEN) }                                           \
        }                                                                                         \
        const uint at = b * halves + part;                                                        \
        LOAD_SCALES                                                                               \
        MZ_R4(MZ_TILE_SCALE_##V)                                                                  \
      }                                                                                           \
      x += BLOCK;                                                                                 \
      u0 += 32; u1 += 32; u2 += 32; u3 += 32;                                                     \
    }                                                                                             \
    MZ_R4(MZ_TILE_STORE_##V)                                                                      \
  }

#define MZ_X(AT) (*(__global const mz_i*)(x + (AT)))
#define MZ_XF(AT) (*(__global const mz_f*)(x + (AT)))
#define MZ_LANE_SCALES(V, FROM)                                                                \
  const mz_f d##V = MZ_XF(FROM + MZ_WIDTH * 32u);                                              \
  const mz_f head##V = MZ_XF(FROM + MZ_WIDTH * 40u);                                           \
  const mz_f all##V = MZ_XF(FROM + MZ_WIDTH * 36u);                                            \
  const mz_f s##V = halves == 1 ? all##V : part == 0 ? head##V : all##V - head##V;

MZ_TILE(mz_tile_1, 1, 8u, MZ_LANES_BLOCK, MZ_TILE_STEP_1,
        const mz_i x0 = MZ_X(step * MZ_VECTOR_BYTES);, MZ_LANE_SCALES(0, 0), MZ_WIDEN_SUMS_1)
#if MZ_WIDTH == 16
MZ_TILE(mz_tile_2, 2, 8u, MZ_LANES_BLOCK, MZ_TILE_STEP_2,
        const mz_i x0 = MZ_X(step * MZ_VECTOR_BYTES);
        const mz_i x1 = MZ_X(next + step * MZ_VECTOR_BYTES);
        , MZ_LANE_SCALES(0, 0) MZ_LANE_SCALES(1, next), MZ_WIDEN_SUMS)
#define MZ_PAIR_SCALES                                          \
  const mz_f d0 = MZ_XF(256), all0 = MZ_XF(320), head0 = MZ_XF(384); \
  const mz_f s0 = halves == 1 ? all0 : part == 0 ? head0 : all0 - head0;
MZ_TILE(mz_tile_p, 1, 4u, MZ_PAIRS_BLOCK, MZ_TILE_STEP_P, const mz_i x0 = MZ_X(step * 64);
        , MZ_PAIR_SCALES, MZ_WIDEN_SUMS_1)
#endif

// The tile for a type: constants for the compiler, one copy for each that differs.
#if MZ_VNNI
#define MZ_TILE_FOR_TYPE(TILE, PER_STEP, ...)                                                 \
  if ((MZ_BYTE_TYPES >> 14 & 1) && type == 14) TILE(__VA_ARGS__, 2, 8);                       \
  else if (MZ_BYTE_TYPES & ~(1u << 14)) TILE(__VA_ARGS__, 1, 8);
#else
#define MZ_BYTES_4 (1u << 2 | 1u << 3 | 1u << 12)
#define MZ_BYTES_5 (1u << 6 | 1u << 7 | 1u << 13)
#define MZ_TILE_FOR_TYPE(TILE, PER_STEP, ...)                                                 \
  if ((MZ_BYTE_TYPES >> 14 & 1) && type == 14) TILE(__VA_ARGS__, 2, 2);                       \
  else if ((MZ_BYTE_TYPES & MZ_BYTES_5) && (MZ_BYTES_5 >> type & 1)) TILE(__VA_ARGS__, 1, 4); \
  else if (MZ_BYTE_TYPES & MZ_BYTES_4) TILE(__VA_ARGS__, 1, 8 / PER_STEP);
#endif

// ---- Few tokens: rows four at a time

#define MZ_FEW_BLOCKS 32u
static inline void mz_bytes_few_item(uint type, mz_bytes weights, ulong row_bytes, uint columns,
                                     uint rows, uint tokens, __global const uchar* x,
                                     __global float* y, mz_bytes unit, ulong bias_offset,
                                     uint flags, uint planes, uint rows_per_item, uint item) {
  const uint blocks = columns / 32;
  const uint last = min(rows, (item + 1) * rows_per_item);
  uchar u[4 * MZ_FEW_BLOCKS * 32] __attribute__((aligned(64)));
  float d[4 * MZ_FEW_BLOCKS * 2] __attribute__((aligned(64)));
  float m[4 * MZ_FEW_BLOCKS * 2] __attribute__((aligned(64)));
  float sums[4 * MZ_WIDTH] __attribute__((aligned(64)));
  for (uint row = item * rows_per_item; row < last; row += 4) {
    for (uint r = 0; r < 4; ++r) *(__private mz_f*)(sums + r * MZ_WIDTH) = (mz_f)(0.0f);
    for (uint first = 0; first < blocks; first += MZ_FEW_BLOCKS) {
      const uint count = min(MZ_FEW_BLOCKS, blocks - first);
      const size_t part = row_bytes * count / blocks;
      mz_bytes ahead = weights + (row + 4) * row_bytes + row_bytes * first / blocks;
      for (uint r = 0; r < 4; ++r, ahead += row_bytes) {
        for (size_t at = 0; at < part; at += 64) MZ_PREFETCH(ahead + at);
      }
      for (uint r = 0; r < 4; ++r) {
        // Rows behind the last one repeat it; their sums are not stored.
        mz_unpack(type, weights + min(row + r, rows - 1) * row_bytes, first, count,
                  u + r * MZ_FEW_BLOCKS * 32, d + r * MZ_FEW_BLOCKS * 2, m + r * MZ_FEW_BLOCKS * 2);
      }
      for (uint plane = 0; plane < planes; ++plane) {
#if MZ_WIDTH == 16
        MZ_TILE_FOR_TYPE(mz_tile_p, 2, u, MZ_FEW_BLOCKS * 32, d, m, MZ_FEW_BLOCKS * 2,
                         x + (size_t)(plane * blocks + first) * MZ_PAIRS_BLOCK, 0, count, sums,
                         MZ_WIDTH)
#else
        MZ_TILE_FOR_TYPE(mz_tile_1, 1, u, MZ_FEW_BLOCKS * 32, d, m, MZ_FEW_BLOCKS * 2,
                         x + (size_t)(plane * blocks + first) * MZ_LANES_BLOCK, 0, count, sums,
                         MZ_WIDTH)
#endif
      }
    }
    for (uint t = 0; t < tokens; ++t) {
      for (uint r = 0; r < 4 && row + r < last; ++r) {
#if MZ_WIDTH == 16
        const float sum = sums[r * 16 + 2 * t] + sums[r * 16 + 2 * t + 1];
#else
        const float sum = sums[r * 8 + t];
#endif
        mz_finish_value(y + (size_t)t * rows + row + r, sum, unit, bias_offset, row + r, flags);
      }
    }
  }
}

// ---- Many tokens: 16 rows × all tokens of the slice

#define MZ_LANES_ROWS 16u
#define MZ_LANES_BLOCKS 16u
#define MZ_LANES_TOKENS 512u

static inline void mz_bytes_many_item(uint type, mz_bytes weights, ulong row_bytes, uint columns,
                                      uint rows, uint tokens, __global const uchar* x,
                                      __global float* y, mz_bytes unit, ulong bias_offset,
                                      uint flags, uint planes, uint item) {
  const uint blocks = columns / 32;
  const uint row = item * MZ_LANES_ROWS;
  const uint vectors = (tokens + MZ_WIDTH - 1) / MZ_WIDTH;
  const uint stride = vectors * MZ_WIDTH;
  const size_t next = (size_t)blocks * MZ_LANES_BLOCK;
  uchar u[MZ_LANES_ROWS * MZ_LANES_BLOCKS * 32] __attribute__((aligned(64)));
  float d[MZ_LANES_ROWS * MZ_LANES_BLOCKS * 2] __attribute__((aligned(64)));
  float m[MZ_LANES_ROWS * MZ_LANES_BLOCKS * 2] __attribute__((aligned(64)));
  float sums[MZ_LANES_ROWS * MZ_LANES_TOKENS] __attribute__((aligned(64)));
  for (uint i = 0; i < MZ_LANES_ROWS * vectors; ++i) ((__private mz_f*)sums)[i] = (mz_f)(0.0f);
  for (uint first = 0; first < blocks; first += MZ_LANES_BLOCKS) {
    const uint count = min(MZ_LANES_BLOCKS, blocks - first);
    for (uint r = 0; r < MZ_LANES_ROWS; ++r) {
      mz_unpack(type, weights + min(row + r, rows - 1) * row_bytes, first, count,
                u + r * MZ_LANES_BLOCKS * 32, d + r * MZ_LANES_BLOCKS * 2,
                m + r * MZ_LANES_BLOCKS * 2);
    }
    for (uint plane = 0; plane < planes; ++plane) {
      __global const uchar* xp = x + plane * vectors * next + (size_t)first * MZ_LANES_BLOCK;
      uint v = 0;
#if MZ_WIDTH == 16
      for (; v + 2 <= vectors; v += 2) {
        for (uint r = 0; r < MZ_LANES_ROWS; r += 4) {
          MZ_TILE_FOR_TYPE(mz_tile_2, 1, u + r * MZ_LANES_BLOCKS * 32, MZ_LANES_BLOCKS * 32,
                           d + r * MZ_LANES_BLOCKS * 2, m + r * MZ_LANES_BLOCKS * 2,
                           MZ_LANES_BLOCKS * 2, xp + v * next, next, count,
                           sums + r * stride + v * MZ_WIDTH, stride)
        }
      }
#endif
      for (; v < vectors; ++v) {
        for (uint r = 0; r < MZ_LANES_ROWS; r += 4) {
          MZ_TILE_FOR_TYPE(mz_tile_1, 1, u + r * MZ_LANES_BLOCKS * 32, MZ_LANES_BLOCKS * 32,
                           d + r * MZ_LANES_BLOCKS * 2, m + r * MZ_LANES_BLOCKS * 2,
                           MZ_LANES_BLOCKS * 2, xp + v * next, next, count,
                           sums + r * stride + v * MZ_WIDTH, stride)
        }
      }
    }
  }
  for (uint r = 0; r < MZ_LANES_ROWS && row + r < rows; r += 4) {
    mz_store_rows(sums + r * stride, stride, tokens, y, rows, row + r, unit, bias_offset, flags);
  }
}
