// Vectors as wide as the processor's registers, and its integer dot products. Everything in
// kernels/cpu is for x86 processors behind PoCL (clang): AVX2 (MZ_WIDTH 8) or AVX-512 (16).
// MZ_VNNI: the processor has vpdpbusd.

#ifndef MZ_WIDTH
#define MZ_WIDTH 8
#endif
#ifndef MZ_VNNI
#define MZ_VNNI 0
#endif

#if MZ_WIDTH == 16
typedef float16 mz_f;
typedef int16 mz_i;
#else
typedef float8 mz_f;
typedef int8 mz_i;
#endif
#define MZ_VECTOR_BYTES (MZ_WIDTH * 4u)

// Unaligned, because rows begin wherever the file has them.
typedef uchar16 mz_u16 __attribute__((aligned(1)));
typedef uint mz_uint1 __attribute__((aligned(1)));
typedef ushort mz_ushort1 __attribute__((aligned(1)));
static inline uchar16 mz_load_u16(mz_bytes p) { return *(__global const mz_u16*)p; }

static inline mz_f mz_fma_v(mz_f a, mz_f b, mz_f c) {
#pragma OPENCL FP_CONTRACT ON
  return a * b + c;
}
static inline mz_f mz_to_float(mz_i v) { return __builtin_convertvector(v, mz_f); }
static inline float mz_sum8(float8 v) {
  const float4 b = v.lo + v.hi;
  const float2 c = b.lo + b.hi;
  return c.x + c.y;
}

// ---- Sums of four products of bytes per 32-bit lane: unsigned u times signed s.

typedef char mz_c32 __attribute__((ext_vector_type(32)));
typedef short mz_s16 __attribute__((ext_vector_type(16)));
#if MZ_WIDTH == 16
typedef char mz_c64 __attribute__((ext_vector_type(64)));
typedef short mz_s32 __attribute__((ext_vector_type(32)));
#endif

#if MZ_VNNI
static inline mz_i mz_dot(mz_i sum, mz_i u, mz_i s) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(u), "v"(s));
  return sum;
}
static inline int8 mz_dot8(int8 sum, int8 u, int8 s) {
#if MZ_WIDTH == 16
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(u), "v"(s));
#else
  __asm__("{vex} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(u), "x"(s));
#endif
  return sum;
}
#else
// Without it, products of pairs are summed in 16 bits first, and as many of them before they are
// widened as cannot overflow (mz_widen): 8 with values of 4 bits, 4 of 5, 2 of 6.
#if MZ_WIDTH == 16
typedef mz_s32 mz_s;
static inline mz_s mz_pairs(mz_i u, mz_i s) {
  return __builtin_ia32_pmaddubsw512(__builtin_astype(u, mz_c64), __builtin_astype(s, mz_c64));
}
static inline mz_i mz_widen(mz_i sum, mz_s pairs) {
  return sum + __builtin_astype(__builtin_ia32_pmaddwd512(pairs, (mz_s)((short)1)), mz_i);
}
#else
typedef mz_s16 mz_s;
static inline mz_s mz_pairs(mz_i u, mz_i s) {
  return __builtin_ia32_pmaddubsw256(__builtin_astype(u, mz_c32), __builtin_astype(s, mz_c32));
}
static inline mz_i mz_widen(mz_i sum, mz_s pairs) {
  return sum + __builtin_astype(__builtin_ia32_pmaddwd256(pairs, (mz_s)((short)1)), mz_i);
}
#endif
static inline int8 mz_dot8(int8 sum, int8 u, int8 s) {
  const mz_s16 pairs =
      __builtin_ia32_pmaddubsw256(__builtin_astype(u, mz_c32), __builtin_astype(s, mz_c32));
  return sum + __builtin_astype(__builtin_ia32_pmaddwd256(pairs, (mz_s16)((short)1)), int8);
}
// Signed by signed: the sign moves to the other factor, so that pairs of products fit 16 bits.
static inline int8 mz_dot8_signed(int8 sum, int8 w, int8 s) {
  const mz_c32 wc = __builtin_astype(w, mz_c32);
  const mz_c32 moved = __builtin_ia32_psignb256(__builtin_astype(s, mz_c32), wc);
  return mz_dot8(sum, __builtin_astype(__builtin_ia32_psignb256(wc, wc), int8),
                 __builtin_astype(moved, int8));
}
#endif

// Bytes ahead that are asked of memory where rows are read once: what arrives while those before are
// worked on. What is behind an item is the group's next one (run.cl).
#define MZ_AHEAD 4096u
