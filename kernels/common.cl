// What every kernel shares: the stop flag, access to units, FP16, dequantisation, exp.
// Compiled in front of all other files, as one program.
//
// MZ_POINTERS=1: a chunk table holds addresses (SVM, or the host's own mappings on a CPU device).
// MZ_POINTERS=0: it holds byte offsets into the one KV buffer of the layer.
//
// Results never depend on timing: no atomics, every reduction in one fixed order, and products are
// fused with sums only where mz_fma says so.
#pragma OPENCL FP_CONTRACT OFF

#ifndef MZ_POINTERS
#define MZ_POINTERS 0
#endif

// Tensor types this program is compiled for: bit i for the type with id i.
#ifndef MZ_TYPES
#define MZ_TYPES 0xFFFFFFFFu
#endif
// Those of them that products take as floats; elsewhere (kernels/cpu) others are taken as integers.
#ifndef MZ_PRODUCT_TYPES
#define MZ_PRODUCT_TYPES MZ_TYPES
#endif
// 1: the functions are called by kernels/cpu, and the kernels of their own are left out.
#ifndef MZ_CPU
#define MZ_CPU 0
#endif

// 1: registers of 8 floats, of which there are 16: larger tiles would not fit into them.
#if MZ_CPU && MZ_WIDTH == 8
#define MZ_NARROW 1
#else
#define MZ_NARROW 0
#endif

#define MZ_CHUNK_TOKENS 256u
#define MZ_TILE_TOKENS 32u

// clang for x86 (PoCL) turns these into single instructions where the portable builtins are split
// into scalars. Oclgrind and compilers for GPUs take the builtins.
#if defined(__clang__) && defined(__x86_64__) && !defined(__SPIR__) && !defined(__SPIRV__)
#define MZ_HOST_CPU 1
#else
#define MZ_HOST_CPU 0
#endif

// Asks for the cache line at p; a processor's own kind of hint.
#if MZ_HOST_CPU
#define MZ_PREFETCH(P) __builtin_prefetch((const void*)(size_t)(P), 0, 3)
#else
#define MZ_PREFETCH(P)
#endif

// Work-groups of one: each work-item is a task with explicit vectors, which is what CPU devices run
// best; the attribute also tells whoever warms kernels up how they are launched.
#define MZ_KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1)))

typedef __global const uchar* mz_bytes;

// A kernel returns at once when the flag is set, so that enqueued work drains without effect.
static inline int mz_stopped(__global const int* stop) {
  return *(volatile __global const int*)stop != 0;
}

// a·b + c as one operation where the device has it.
static inline float16 mz_fma16(float16 a, float16 b, float16 c) {
#pragma OPENCL FP_CONTRACT ON
  return a * b + c;
}
#if MZ_HOST_CPU
static inline float8 mz_fma8(float8 a, float8 b, float8 c) {
#pragma OPENCL FP_CONTRACT ON
  return a * b + c;
}
#endif
static inline float mz_fma(float a, float b, float c) {
#pragma OPENCL FP_CONTRACT ON
  return a * b + c;
}

// ---- FP16, stored as 16-bit words

#if MZ_HOST_CPU
typedef _Float16 mz_half16 __attribute__((ext_vector_type(16), aligned(2)));
static inline float mz_load_half(mz_bytes p) { return (float)*(__global const _Float16*)p; }
static inline float16 mz_load_half16(mz_bytes p) {
  return __builtin_convertvector(*(__global const mz_half16*)p, float16);
}
static inline void mz_store_half(float x, __global uchar* p) { *(__global _Float16*)p = (_Float16)x; }
#define MZ_FLOAT16(x) __builtin_convertvector(x, float16)
#else
static inline float mz_load_half(mz_bytes p) { return vload_half(0, (__global const half*)p); }
static inline float16 mz_load_half16(mz_bytes p) { return vload_half16(0, (__global const half*)p); }
static inline void mz_store_half(float x, __global uchar* p) {
  vstore_half_rte(x, 0, (__global half*)p);
}
#define MZ_FLOAT16(x) convert_float16(x)
#endif

// ---- Units

// One KV chunk of this layer: K, then V.
static inline __global uchar* mz_chunk(__global uchar* base, __global const ulong* table,
                                       uint chunk) {
#if MZ_POINTERS
  return (__global uchar*)table[chunk];
#else
  return base + table[chunk];
#endif
}

// Byte offset of K[kv_head][token][dim] in a chunk: [kv_head][token/32][dim][32 tokens].
static inline ulong mz_key_offset(uint kv_head, uint head_dim, uint token, uint dim) {
  const ulong tile = (ulong)kv_head * (MZ_CHUNK_TOKENS / MZ_TILE_TOKENS) + token / MZ_TILE_TOKENS;
  return ((tile * head_dim + dim) * MZ_TILE_TOKENS + token % MZ_TILE_TOKENS) * 2;
}

// Byte offset of V[kv_head][token][dim]: [kv_head][dim/32][token][32 dims], behind all of K. The
// last block of dims may be narrower.
static inline ulong mz_value_offset(uint kv_heads, uint kv_head, uint head_dim, uint token,
                                    uint dim) {
  const uint block = dim / 32;
  const uint width = min(32u, head_dim - block * 32);
  const ulong half_values = (ulong)kv_heads * head_dim * MZ_CHUNK_TOKENS;
  const ulong head = (ulong)kv_head * head_dim * MZ_CHUNK_TOKENS;
  return (half_values + head + (ulong)block * 32 * MZ_CHUNK_TOKENS + (ulong)token * width +
          (dim - block * 32)) * 2;
}

// Registers by name: arrays of vectors are not always kept in registers.
#define MZ_ONE(F) F(0)
#define MZ_TWO(F) F(0) F(1)
#define MZ_THREE(F) F(0) F(1) F(2)
#define MZ_FOUR(F) F(0) F(1) F(2) F(3)
#define MZ_SIX(F) F(0) F(1) F(2) F(3) F(4) F(5)
#define MZ_EIGHT(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)

// ---- Reductions, in a fixed order

static inline float mz_sum16(float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  const float2 c = b.lo + b.hi;
  return c.x + c.y;
}
static inline float16 mz_max16(float16 a, float16 b) { return a > b ? a : b; }
static inline float mz_largest16(float16 v) {
  const float8 a = v.lo > v.hi ? v.lo : v.hi;
  const float4 b = a.lo > a.hi ? a.lo : a.hi;
  const float2 c = b.lo > b.hi ? b.lo : b.hi;
  return c.x > c.y ? c.x : c.y;
}

// ---- Exponentials: a polynomial, so that every device gives nearly the same bits

// 2^x for x ≤ 0 … 126; below −126 the result is 2^−126. Relative error about 2e-7.
static inline float16 mz_exp2_16(float16 x) {
  x = x < -126.0f ? (float16)(-126.0f) : x;
  x = x > 126.0f ? (float16)(126.0f) : x;
  // Adding and subtracting 1.5·2^23 rounds to the nearest integer.
  const float16 shifted = x + 12582912.0f;
  const float16 f = x - (shifted - 12582912.0f);
  float16 p = (float16)(1.5403530e-4f);
  p = mz_fma16(p, f, (float16)(1.3333558e-3f));
  p = mz_fma16(p, f, (float16)(9.6181291e-3f));
  p = mz_fma16(p, f, (float16)(5.5504109e-2f));
  p = mz_fma16(p, f, (float16)(2.4022651e-1f));
  p = mz_fma16(p, f, (float16)(6.9314718e-1f));
  p = mz_fma16(p, f, (float16)(1.0f));
  const int16 exponent = (as_int16(shifted) - 0x4B400000) << 23;
  return as_float16(as_int16(p) + exponent);
}
static inline float mz_exp2(float x) {
  x = x < -126.0f ? -126.0f : x;
  x = x > 126.0f ? 126.0f : x;
  const float shifted = x + 12582912.0f;
  const float f = x - (shifted - 12582912.0f);
  float p = 1.5403530e-4f;
  p = mz_fma(p, f, 1.3333558e-3f);
  p = mz_fma(p, f, 9.6181291e-3f);
  p = mz_fma(p, f, 5.5504109e-2f);
  p = mz_fma(p, f, 2.4022651e-1f);
  p = mz_fma(p, f, 6.9314718e-1f);
  p = mz_fma(p, f, 1.0f);
  return as_float(as_int(p) + ((as_int(shifted) - 0x4B400000) << 23));
}
#define MZ_LOG2E 1.44269504f

static inline float16 mz_tanh16(float16 x) {
  // tanh x = 1 − 2/(e^{2x} + 1); exp2 saturates, so large |x| gives ±1.
  return 1.0f - 2.0f / (mz_exp2_16(x * (2.0f * MZ_LOG2E)) + 1.0f);
}

// ---- What a matrix product does with a finished sum
// flags 1: add to y; 2: add bias[row] first (floats in the same unit).

static inline void mz_finish_value(__global float* y, float sum, mz_bytes unit, ulong bias_offset,
                                   uint row, uint flags) {
  if (flags & 2) sum += ((__global const float*)(unit + bias_offset))[row];
  *y = (flags & 1) ? *y + sum : sum;
}

// ---- Dequantisation: 32 values of a row, from value 32·b on, into private floats.
// Formats: ggml's block_q4_0 … block_q6_K, as they lie in the file.

static inline void mz_f32(mz_bytes row, uint b, __private float* out) {
  vstore16(vload16(0, (__global const float*)row + b * 32), 0, out);
  vstore16(vload16(1, (__global const float*)row + b * 32), 1, out);
}
static inline void mz_f16(mz_bytes row, uint b, __private float* out) {
  vstore16(mz_load_half16(row + (size_t)b * 64), 0, out);
  vstore16(mz_load_half16(row + (size_t)b * 64 + 32), 1, out);
}
static inline void mz_bf16(mz_bytes row, uint b, __private float* out) {
  const ushort16 lo = vload16(0, (__global const ushort*)row + b * 32);
  const ushort16 hi = vload16(1, (__global const ushort*)row + b * 32);
  vstore16(as_float16(convert_uint16(lo) << 16), 0, out);
  vstore16(as_float16(convert_uint16(hi) << 16), 1, out);
}
static inline void mz_q4_0(mz_bytes row, uint b, __private float* out) {
  mz_bytes p = row + (size_t)b * 18;
  const float16 d = (float16)(mz_load_half(p));
  const uchar16 q = vload16(0, p + 2);
  vstore16((MZ_FLOAT16(q & (uchar16)(15)) - 8.0f) * d, 0, out);
  vstore16((MZ_FLOAT16(q >> (uchar16)(4)) - 8.0f) * d, 1, out);
}
static inline void mz_q4_1(mz_bytes row, uint b, __private float* out) {
  mz_bytes p = row + (size_t)b * 20;
  const float16 d = (float16)(mz_load_half(p));
  const float16 m = (float16)(mz_load_half(p + 2));
  const uchar16 q = vload16(0, p + 4);
  vstore16(mz_fma16(MZ_FLOAT16(q & (uchar16)(15)), d, m), 0, out);
  vstore16(mz_fma16(MZ_FLOAT16(q >> (uchar16)(4)), d, m), 1, out);
}

#define MZ_IOTA16 (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
// Bits first … first+15 of `bits`, each as 16 or 0: the fifth bit of 16 values.
static inline uint16 mz_fifth_bits(uint bits) { return (((uint16)(bits) >> MZ_IOTA16) & 1u) << 4; }
static inline uint mz_load_uint(mz_bytes p) {
  __global const ushort* h = (__global const ushort*)p;  // Q5_0 aligns it to 2 bytes only
  return (uint)h[0] | ((uint)h[1] << 16);
}
static inline void mz_q5_0(mz_bytes row, uint b, __private float* out) {
  mz_bytes p = row + (size_t)b * 22;
  const float16 d = (float16)(mz_load_half(p));
  const uint high = mz_load_uint(p + 2);
  const uchar16 q = vload16(0, p + 6);
  const int16 lo = as_int16(convert_uint16(q & (uchar16)(15)) | mz_fifth_bits(high));
  const int16 hi = as_int16(convert_uint16(q >> (uchar16)(4)) | mz_fifth_bits(high >> 16));
  vstore16(MZ_FLOAT16(lo - 16) * d, 0, out);
  vstore16(MZ_FLOAT16(hi - 16) * d, 1, out);
}
static inline void mz_q5_1(mz_bytes row, uint b, __private float* out) {
  mz_bytes p = row + (size_t)b * 24;
  const float16 d = (float16)(mz_load_half(p));
  const float16 m = (float16)(mz_load_half(p + 2));
  const uint high = mz_load_uint(p + 4);
  const uchar16 q = vload16(0, p + 8);
  const int16 lo = as_int16(convert_uint16(q & (uchar16)(15)) | mz_fifth_bits(high));
  const int16 hi = as_int16(convert_uint16(q >> (uchar16)(4)) | mz_fifth_bits(high >> 16));
  vstore16(mz_fma16(MZ_FLOAT16(lo), d, m), 0, out);
  vstore16(mz_fma16(MZ_FLOAT16(hi), d, m), 1, out);
}
static inline void mz_q8_0(mz_bytes row, uint b, __private float* out) {
  mz_bytes p = row + (size_t)b * 34;
  const float16 d = (float16)(mz_load_half(p));
  __global const char* q = (__global const char*)(p + 2);
  vstore16(MZ_FLOAT16(vload16(0, q)) * d, 0, out);
  vstore16(MZ_FLOAT16(vload16(1, q)) * d, 1, out);
}

// Scale and minimum (6 bits each) of sub-block j of a Q4_K or Q5_K block: 12 packed bytes.
static inline uint2 mz_k_scale(mz_bytes s, uint j) {
  if (j < 4) return (uint2)(s[j] & 63, s[j + 4] & 63);
  return (uint2)((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) | ((s[j] >> 6) << 4));
}
static inline void mz_q4_k(mz_bytes row, uint b, __private float* out) {
  mz_bytes p = row + (size_t)(b / 8) * 144;
  const uint j = b % 8;
  const uint2 scale = mz_k_scale(p + 4, j);
  const float16 d = (float16)(mz_load_half(p) * (float)scale.x);
  const float16 m = (float16)(-mz_load_half(p + 2) * (float)scale.y);
  mz_bytes qs = p + 16 + (j / 2) * 32;
  const uchar16 shift = (uchar16)((uchar)((j & 1) * 4));
  vstore16(mz_fma16(MZ_FLOAT16((vload16(0, qs) >> shift) & (uchar16)(15)), d, m), 0, out);
  vstore16(mz_fma16(MZ_FLOAT16((vload16(1, qs) >> shift) & (uchar16)(15)), d, m), 1, out);
}
static inline void mz_q5_k(mz_bytes row, uint b, __private float* out) {
  mz_bytes p = row + (size_t)(b / 8) * 176;
  const uint j = b % 8;
  const uint2 scale = mz_k_scale(p + 4, j);
  const float16 d = (float16)(mz_load_half(p) * (float)scale.x);
  const float16 m = (float16)(-mz_load_half(p + 2) * (float)scale.y);
  mz_bytes qh = p + 16;
  mz_bytes qs = p + 48 + (j / 2) * 32;
  const uchar16 shift = (uchar16)((uchar)((j & 1) * 4));
  const uchar16 bit = (uchar16)((uchar)j);
  const uchar16 lo = ((vload16(0, qs) >> shift) & (uchar16)(15)) |
                     (((vload16(0, qh) >> bit) & (uchar16)(1)) << (uchar16)(4));
  const uchar16 hi = ((vload16(1, qs) >> shift) & (uchar16)(15)) |
                     (((vload16(1, qh) >> bit) & (uchar16)(1)) << (uchar16)(4));
  vstore16(mz_fma16(MZ_FLOAT16(lo), d, m), 0, out);
  vstore16(mz_fma16(MZ_FLOAT16(hi), d, m), 1, out);
}
static inline void mz_q6_k(mz_bytes row, uint b, __private float* out) {
  mz_bytes p = row + (size_t)(b / 8) * 210;
  const uint n = (b % 8) / 4;
  const uint i = b % 4;
  mz_bytes ql = p + n * 64 + (i & 1) * 32;
  mz_bytes qh = p + 128 + n * 32;
  __global const char* sc = (__global const char*)(p + 192) + n * 8 + i * 2;
  const float d = mz_load_half(p + 208);
  const uchar16 low_shift = (uchar16)((uchar)((i / 2) * 4));
  const uchar16 high_shift = (uchar16)((uchar)(i * 2));
  const uchar16 lo = ((vload16(0, ql) >> low_shift) & (uchar16)(15)) |
                     (((vload16(0, qh) >> high_shift) & (uchar16)(3)) << (uchar16)(4));
  const uchar16 hi = ((vload16(1, ql) >> low_shift) & (uchar16)(15)) |
                     (((vload16(1, qh) >> high_shift) & (uchar16)(3)) << (uchar16)(4));
  vstore16((MZ_FLOAT16(lo) - 32.0f) * (float16)(d * (float)sc[0]), 0, out);
  vstore16((MZ_FLOAT16(hi) - 32.0f) * (float16)(d * (float)sc[1]), 1, out);
}

// CASE(id, function) for every tensor type of MZ_TYPES, ids as in the file: what a program is not
// compiled for takes no time to compile.
#if MZ_TYPES & (1u << 0)
#define MZ_TYPE_0(CASE) CASE(0, mz_f32)
#else
#define MZ_TYPE_0(CASE)
#endif
#if MZ_TYPES & (1u << 1)
#define MZ_TYPE_1(CASE) CASE(1, mz_f16)
#else
#define MZ_TYPE_1(CASE)
#endif
#if MZ_TYPES & (1u << 2)
#define MZ_TYPE_2(CASE) CASE(2, mz_q4_0)
#else
#define MZ_TYPE_2(CASE)
#endif
#if MZ_TYPES & (1u << 3)
#define MZ_TYPE_3(CASE) CASE(3, mz_q4_1)
#else
#define MZ_TYPE_3(CASE)
#endif
#if MZ_TYPES & (1u << 6)
#define MZ_TYPE_6(CASE) CASE(6, mz_q5_0)
#else
#define MZ_TYPE_6(CASE)
#endif
#if MZ_TYPES & (1u << 7)
#define MZ_TYPE_7(CASE) CASE(7, mz_q5_1)
#else
#define MZ_TYPE_7(CASE)
#endif
#if MZ_TYPES & (1u << 8)
#define MZ_TYPE_8(CASE) CASE(8, mz_q8_0)
#else
#define MZ_TYPE_8(CASE)
#endif
#if MZ_TYPES & (1u << 12)
#define MZ_TYPE_12(CASE) CASE(12, mz_q4_k)
#else
#define MZ_TYPE_12(CASE)
#endif
#if MZ_TYPES & (1u << 13)
#define MZ_TYPE_13(CASE) CASE(13, mz_q5_k)
#else
#define MZ_TYPE_13(CASE)
#endif
#if MZ_TYPES & (1u << 14)
#define MZ_TYPE_14(CASE) CASE(14, mz_q6_k)
#else
#define MZ_TYPE_14(CASE)
#endif
#if MZ_TYPES & (1u << 30)
#define MZ_TYPE_30(CASE) CASE(30, mz_bf16)
#else
#define MZ_TYPE_30(CASE)
#endif
#define MZ_FOR_EACH_TYPE(CASE)                                              \
  MZ_TYPE_0(CASE) MZ_TYPE_1(CASE) MZ_TYPE_2(CASE) MZ_TYPE_3(CASE)           \
  MZ_TYPE_6(CASE) MZ_TYPE_7(CASE) MZ_TYPE_8(CASE) MZ_TYPE_12(CASE)          \
  MZ_TYPE_13(CASE) MZ_TYPE_14(CASE) MZ_TYPE_30(CASE)

// Blocks of 32 values [first, first + count) of a row into out.
static inline void mz_dequantise(uint type, mz_bytes row, uint first, uint count,
                                 __private float* out) {
#define MZ_CASE(ID, FUNCTION)                                                  \
  case ID:                                                                     \
    for (uint b = 0; b < count; ++b) FUNCTION(row, first + b, out + b * 32);   \
    break;
  switch (type) { MZ_FOR_EACH_TYPE(MZ_CASE) default: break; }
#undef MZ_CASE
}
