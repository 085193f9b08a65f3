// Activations as signed bytes: per token and block of 32 columns, value ≈ d · q with q in ±127.
// Beside the bytes lie d, s = d·Σq over the block, and h = d·Σq over its first 16: what the minima
// of the weights are multiplied with. Three orders:
//
// row    one token: q[columns], then d, s, h, each [columns/32] floats.
// lanes  a lane per token: [tokens/W][columns/32] of { [8][W][4 bytes], d[W], s[W], h[W] }.
// pairs  W = 16 and at most 8 tokens: two lanes per token, for even and odd groups of 4 columns:
//        [columns/32] of { [4][8][8 bytes], d[16], s[16], h[16] }, s and h zero in odd lanes.

#define MZ_LANES_BLOCK (MZ_WIDTH * 44u)
#define MZ_PAIRS_BLOCK 448u
// Bytes of a plane in row order, whole cache lines.
#define MZ_ROW_PLANE(COLUMNS) (((COLUMNS) + (COLUMNS) / 32 * 12 + 63) / 64 * 64)

// 32 floats to bytes; a and b become what is left of them. Rounds to nearest even, by adding and
// subtracting 1.5·2^23.
static inline void mz_quantise_32(__private float16* a, __private float16* b, __private char* q,
                                  __private float* d, __private float* s, __private float* h) {
  const float largest = mz_largest16(mz_max16(fabs(*a), fabs(*b)));
  const float to = largest > 0.0f ? 127.0f / largest : 0.0f;
  const float16 ra = *a * to + 12582912.0f;
  const float16 rb = *b * to + 12582912.0f;
  const float16 fa = ra - 12582912.0f;
  const float16 fb = rb - 12582912.0f;
  *(__private char16*)q = __builtin_convertvector(as_int16(ra) - 0x4B400000, char16);
  *(__private char16*)(q + 16) = __builtin_convertvector(as_int16(rb) - 0x4B400000, char16);
  const float scale = largest * (1.0f / 127.0f);
  const float first = mz_sum16(fa);
  *d = scale;
  *h = scale * first;
  *s = scale * (first + mz_sum16(fb));
  *a -= fa * scale;
  *b -= fb * scale;
}

// Each order may have two planes, one behind the other: the second holds what the first left over,
// in the same way. Products then are the sum of both, as good as with 16 bits.

static inline void mz_pack_row(__global const float* x, __global uchar* out, uint columns,
                               uint planes) {
  const uint blocks = columns / 32;
  const size_t plane_bytes = MZ_ROW_PLANE(columns);
  for (uint b = 0; b < blocks; ++b) {
    float16 lo = vload16(2 * b, x), hi = vload16(2 * b + 1, x);
    for (uint plane = 0; plane < planes; ++plane) {
      char q[32] __attribute__((aligned(32)));
      float scale, sum, head;
      mz_quantise_32(&lo, &hi, q, &scale, &sum, &head);
      __global uchar* to = out + plane * plane_bytes;
      *(__global char16*)(to + b * 32) = *(__private char16*)q;
      *(__global char16*)(to + b * 32 + 16) = *(__private char16*)(q + 16);
      __global float* d = (__global float*)(to + columns);
      d[b] = scale;
      d[blocks + b] = sum;
      d[2 * blocks + b] = head;
    }
  }
}

// x = 0: a token behind the last one, zeros.
static inline void mz_pack_lane(__global const float* x, __global uchar* out, uint columns,
                                uint token, uint planes, size_t plane_bytes) {
  const uint lane = token % MZ_WIDTH;
  __global uchar* block = out + (size_t)(token / MZ_WIDTH) * (columns / 32) * MZ_LANES_BLOCK;
  for (uint b = 0; b < columns / 32; ++b, block += MZ_LANES_BLOCK) {
    float16 lo = x ? vload16(2 * b, x) : (float16)(0.0f);
    float16 hi = x ? vload16(2 * b + 1, x) : (float16)(0.0f);
    for (uint plane = 0; plane < planes; ++plane) {
      char q[32] __attribute__((aligned(32)));
      float scale, sum, head;
      mz_quantise_32(&lo, &hi, q, &scale, &sum, &head);
      __global uint* to = (__global uint*)(block + plane * plane_bytes) + lane;
      for (uint i = 0; i < 8; ++i) to[i * MZ_WIDTH] = ((__private uint*)q)[i];
      __global float* scales = (__global float*)(to + MZ_WIDTH * 8u);
      scales[0] = scale;
      scales[MZ_WIDTH] = sum;
      scales[2 * MZ_WIDTH] = head;
    }
  }
}

static inline void mz_pack_pair(__global const float* x, __global uchar* out, uint columns,
                                uint token, uint planes) {
  const size_t plane_bytes = (size_t)(columns / 32) * MZ_PAIRS_BLOCK;
  __global uchar* block = out;
  for (uint b = 0; b < columns / 32; ++b, block += MZ_PAIRS_BLOCK) {
    float16 lo = x ? vload16(2 * b, x) : (float16)(0.0f);
    float16 hi = x ? vload16(2 * b + 1, x) : (float16)(0.0f);
    for (uint plane = 0; plane < planes; ++plane) {
      char q[32] __attribute__((aligned(32)));
      float scale, sum, head;
      mz_quantise_32(&lo, &hi, q, &scale, &sum, &head);
      __global uchar* to = block + plane * plane_bytes;
      for (uint i = 0; i < 4; ++i) ((__global ulong*)to)[token + i * 8] = ((__private ulong*)q)[i];
      __global float* scales = (__global float*)(to + 256) + 2 * token;
      scales[0] = scale;
      scales[1] = scale;
      scales[16] = sum;
      scales[17] = 0.0f;
      scales[32] = head;
      scales[33] = 0.0f;
    }
  }
}

// Floats for the dot form of few tokens: [tokens/8][columns/16][8][16], zeros behind the last
// token. One token; x = 0 as above.
static inline void mz_pack_few(__global const float* x, __global float* out, uint columns,
                               uint token) {
  __global float* to = out + (size_t)(token / 8) * columns * 8 + (token % 8) * 16;
  for (uint k = 0; k < columns / 16; ++k) {
    vstore16(x ? vload16(k, x) : (float16)(0.0f), 0, to + k * 128);
  }
}
