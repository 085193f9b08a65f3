// Quantised weights as unsigned bytes: value = d · byte + m, with one (d, m) per block of 32, two
// per block where a type has scales for 16 (Q6_K). Formats as in common.cl.

// Private bytes are stored as whole vectors: vstore16 of uchar is split into bytes.
static inline void mz_put(__private uchar* u, uint at, uchar16 v) {
  *(__private uchar16*)(u + at * 16) = v;
}
static inline float mz_half_at(mz_bytes p) { return (float)*(__global const _Float16*)p; }

#define MZ_BIT_OF_LANE (uchar16)(1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128)
// 16 where a bit of `bits` is set, first bit first.
static inline uchar16 mz_bits_to_16(uint bits) {
  const uchar8 lo = (uchar8)((uchar)bits);
  const uchar8 hi = (uchar8)((uchar)(bits >> 8));
  const uchar16 mask = MZ_BIT_OF_LANE;
  return as_uchar16(((uchar16)(lo, hi) & mask) == mask) & (uchar16)(16);
}

// The bytes of a block of 32 with one scale.

typedef uchar mz_u32 __attribute__((ext_vector_type(32), aligned(1)));
static inline int8 mz_nibbles(mz_bytes p) {
  const uchar16 q = mz_load_u16(p);
  const mz_u32 both = __builtin_shufflevector(q, q >> (uchar16)(4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                                              11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
                                              24, 25, 26, 27, 28, 29, 30, 31);
  return __builtin_astype(both, int8) & 0x0F0F0F0F;
}
static inline int8 mz_fifth_of(mz_bytes p) {
  const uint bits = *(__global const mz_uint1*)p;
  const uchar16 lo = mz_bits_to_16(bits), hi = mz_bits_to_16(bits >> 16);
  const mz_u32 both = __builtin_shufflevector(lo, hi, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
                                              14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
                                              27, 28, 29, 30, 31);
  return __builtin_astype(both, int8);
}
static inline int8 mz_regs_q4_0(mz_bytes p) { return mz_nibbles(p + 2); }
static inline int8 mz_regs_q4_1(mz_bytes p) { return mz_nibbles(p + 4); }
static inline int8 mz_regs_q5_0(mz_bytes p) { return mz_nibbles(p + 6) | mz_fifth_of(p + 2); }
static inline int8 mz_regs_q5_1(mz_bytes p) { return mz_nibbles(p + 8) | mz_fifth_of(p + 4); }
static inline int8 mz_regs_q8_0(mz_bytes p) {
  return __builtin_astype(*(__global const mz_u32*)(p + 2), int8) ^ (int)0x80808080;
}
static inline int8 mz_signed_q8_0(mz_bytes p) {
  return __builtin_astype(*(__global const mz_u32*)(p + 2), int8);
}

typedef _Float16 mz_halves __attribute__((ext_vector_type(16)));

// The eight 6-bit scales and minima of a Q4_K or Q5_K block.
static inline void mz_k_scales(mz_bytes p, __private float* d, __private float* m) {
  const uint a = *(__global const mz_uint1*)(p + 4);
  const uint b = *(__global const mz_uint1*)(p + 8);
  const uint c = *(__global const mz_uint1*)(p + 12);
  const uint2 scales = (uint2)(a & 0x3F3F3F3Fu, (c & 0x0F0F0F0Fu) | (a >> 6 & 0x03030303u) << 4);
  const uint2 minima =
      (uint2)(b & 0x3F3F3F3Fu, (c >> 4 & 0x0F0F0F0Fu) | (b >> 6 & 0x03030303u) << 4);
  vstore8(__builtin_convertvector(as_uchar8(scales), float8) * mz_half_at(p), 0, d);
  vstore8(__builtin_convertvector(as_uchar8(minima), float8) * -mz_half_at(p + 2), 0, m);
}
// Eight blocks of 32 at once: b is a multiple of 8.
static inline void mz_bytes_q4_k(mz_bytes row, uint b, __private uchar* u, __private float* d,
                                 __private float* m) {
  mz_bytes p = row + (size_t)(b / 8) * 144;
  mz_k_scales(p, d, m);
#pragma unroll
  for (uint i = 0; i < 4; ++i) {
    const uchar16 q0 = mz_load_u16(p + 16 + i * 32);
    const uchar16 q1 = mz_load_u16(p + 32 + i * 32);
    mz_put(u, i * 4, q0 & (uchar16)(15));
    mz_put(u, i * 4 + 1, q1 & (uchar16)(15));
    mz_put(u, i * 4 + 2, q0 >> (uchar16)(4));
    mz_put(u, i * 4 + 3, q1 >> (uchar16)(4));
  }
}
static inline void mz_bytes_q5_k(mz_bytes row, uint b, __private uchar* u, __private float* d,
                                 __private float* m) {
  mz_bytes p = row + (size_t)(b / 8) * 176;
  mz_k_scales(p, d, m);
  const uchar16 h0 = mz_load_u16(p + 16);
  const uchar16 h1 = mz_load_u16(p + 32);
#pragma unroll
  for (uint i = 0; i < 4; ++i) {
    const uchar16 q0 = mz_load_u16(p + 48 + i * 32);
    const uchar16 q1 = mz_load_u16(p + 64 + i * 32);
    const uchar16 one = (uchar16)(1);
    const uchar16 even = (uchar16)((uchar)(2 * i));
    const uchar16 odd = (uchar16)((uchar)(2 * i + 1));
    const uchar16 four = (uchar16)(4);
    mz_put(u, i * 4, (q0 & (uchar16)(15)) | (h0 >> even & one) << four);
    mz_put(u, i * 4 + 1, (q1 & (uchar16)(15)) | (h1 >> even & one) << four);
    mz_put(u, i * 4 + 2, (q0 >> four) | (h0 >> odd & one) << four);
    mz_put(u, i * 4 + 3, (q1 >> four) | (h1 >> odd & one) << four);
  }
}
// 16 scales for the eight blocks.
static inline void mz_bytes_q6_k(mz_bytes row, uint b, __private uchar* u, __private float* d,
                                 __private float* m) {
  mz_bytes p = row + (size_t)(b / 8) * 210;
  const char16 scales = as_char16(mz_load_u16(p + 192));
  const float16 s = __builtin_convertvector(scales, float16) * mz_half_at(p + 208);
  vstore16(s, 0, d);
  vstore16(s * -32.0f, 0, m);
  const uchar16 low = (uchar16)(15);
  const uchar16 two = (uchar16)(3);
  const uchar16 four = (uchar16)(4);
#pragma unroll
  for (uint n = 0; n < 2; ++n) {
#pragma unroll
    for (uint half_block = 0; half_block < 2; ++half_block) {
      const uchar16 l0 = mz_load_u16(p + n * 64 + half_block * 16);
      const uchar16 l1 = mz_load_u16(p + n * 64 + 32 + half_block * 16);
      const uchar16 h = mz_load_u16(p + 128 + n * 32 + half_block * 16);
      mz_put(u, n * 8 + half_block, (l0 & low) | (h & two) << four);
      mz_put(u, n * 8 + 2 + half_block, (l1 & low) | (h >> (uchar16)(2) & two) << four);
      mz_put(u, n * 8 + 4 + half_block, (l0 >> four) | (h >> four & two) << four);
      mz_put(u, n * 8 + 6 + half_block, (l1 >> four) | (h >> (uchar16)(6)) << four);
    }
  }
}

#define MZ_UNPACK_BLOCKS 32u

// Blocks [first, first + count) of a row. Types of 256 values want multiples of 8. d and m have room
// for whole groups of 16.
static inline void mz_unpack(uint type, mz_bytes row, uint first, uint count, __private uchar* u,
                             __private float* d, __private float* m) {
  // Scales are stored one by one and loaded as vectors, which waits until all have left for the
  // cache: so they go first, and the bytes are unpacked meanwhile.
#define MZ_UNPACK_32(ID, REGS, BLOCK_BYTES, FACTOR)                                            \
  case ID:                                                                                     \
    if (!(MZ_BYTE_TYPES >> ID & 1)) break;                                                     \
    for (uint at = 0; at < count; at += MZ_UNPACK_BLOCKS) {                                    \
      const uint blocks = min(MZ_UNPACK_BLOCKS, count - at);                                   \
      ushort dh[MZ_UNPACK_BLOCKS] __attribute__((aligned(64)));                                \
      ushort mh[MZ_UNPACK_BLOCKS] __attribute__((aligned(64)));                                \
      mz_bytes p = row + (size_t)(first + at) * BLOCK_BYTES;                                   \
      _Pragma("unroll 8") for (uint b = 0; b < blocks; ++b) {                                  \
        dh[b] = *(__global const mz_ushort1*)(p + b * BLOCK_BYTES);                            \
        if (FACTOR == 0) mh[b] = *(__global const mz_ushort1*)(p + b * BLOCK_BYTES + 2);       \
      }                                                                                        \
      _Pragma("unroll 4") for (uint b = 0; b < blocks; ++b) {                                  \
        *(__private int8*)(u + (at + b) * 32) = REGS(p + b * BLOCK_BYTES);                     \
      }                                                                                        \
      for (uint b = 0; b < blocks; b += 16) {                                                  \
        const float16 scales = __builtin_convertvector(*(__private mz_halves*)(dh + b), float16); \
        *(__private float16*)(d + at + b) = scales;                                            \
        *(__private float16*)(m + at + b) =                                                    \
            FACTOR == 0 ? __builtin_convertvector(*(__private mz_halves*)(mh + b), float16)    \
                        : scales * FACTOR;                                                     \
      }                                                                                        \
    }                                                                                          \
    break;
#define MZ_UNPACK_256(ID, FUNCTION, SCALES)                                        \
  case ID:                                                                         \
    if (!(MZ_BYTE_TYPES >> ID & 1)) break;                                         \
    for (uint b = 0; b < count; b += 8) {                                          \
      FUNCTION(row, first + b, u + b * 32, d + b * SCALES, m + b * SCALES);        \
    }                                                                              \
    break;
  switch (type) {
    MZ_UNPACK_32(2, mz_regs_q4_0, 18, -8.0f)
    MZ_UNPACK_32(3, mz_regs_q4_1, 20, 0)
    MZ_UNPACK_32(6, mz_regs_q5_0, 22, -16.0f)
    MZ_UNPACK_32(7, mz_regs_q5_1, 24, 0)
    MZ_UNPACK_32(8, mz_regs_q8_0, 34, -128.0f)
    MZ_UNPACK_256(12, mz_bytes_q4_k, 1)
    MZ_UNPACK_256(13, mz_bytes_q5_k, 1)
    MZ_UNPACK_256(14, mz_bytes_q6_k, 2)
    default: break;
  }
}
