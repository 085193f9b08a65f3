// Rotary position embedding of Q (in place) and K, and K, V to FP16 in the KV chunks.
// One work-item per (token, head slot); slots: query heads, then K heads, then V heads.
// `angles`: [token][rotated/2] pairs (cos, sin), made for the slice; rotated = 0: no rotation.
// split 0: pairs (2i, 2i+1); 1: pairs (i, i + rotated/2).

#define MZ_EVEN16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define MZ_ODD16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
// Even and odd elements of the 32 floats at p.
static inline float16 mz_even16(__global const float* p) {
#if MZ_HOST_CPU
  return __builtin_shufflevector(vload16(0, p), vload16(1, p), MZ_EVEN16);
#else
  return (float16)(vload16(0, p).even, vload16(1, p).even);
#endif
}
static inline float16 mz_odd16(__global const float* p) {
#if MZ_HOST_CPU
  return __builtin_shufflevector(vload16(0, p), vload16(1, p), MZ_ODD16);
#else
  return (float16)(vload16(0, p).odd, vload16(1, p).odd);
#endif
}

// u0, v0, u1, v1, …: the first eight of each, and the others.
static inline float16 mz_pairs_low16(float16 u, float16 v) {
  return (float16)(u.s0, v.s0, u.s1, v.s1, u.s2, v.s2, u.s3, v.s3, u.s4, v.s4, u.s5, v.s5, u.s6, v.s6,
                   u.s7, v.s7);
}
static inline float16 mz_pairs_high16(float16 u, float16 v) {
  return (float16)(u.s8, v.s8, u.s9, v.s9, u.sa, v.sa, u.sb, v.sb, u.sc, v.sc, u.sd, v.sd, u.se, v.se,
                   u.sf, v.sf);
}

// One head, rotated, to private floats.
static inline void mz_rotate(__global const float* x, __global const float2* angles, uint head_dim,
                             uint rotated, uint split, __private float* out) {
  const uint half_dims = rotated / 2;
  uint pair = 0;
  for (; pair + 16 <= half_dims; pair += 16) {
    __global const float* t = (__global const float*)(angles + pair);
    const float16 c = mz_even16(t), s = mz_odd16(t);
    const float16 a = split ? vload16(0, x + pair) : mz_even16(x + 2 * pair);
    const float16 b = split ? vload16(0, x + pair + half_dims) : mz_odd16(x + 2 * pair);
    const float16 u = mz_fma16(a, c, -(b * s));
    const float16 v = mz_fma16(a, s, b * c);
    if (split) {
      vstore16(u, 0, out + pair);
      vstore16(v, 0, out + pair + half_dims);
    } else {
      vstore16(mz_pairs_low16(u, v), 0, out + 2 * pair);
      vstore16(mz_pairs_high16(u, v), 1, out + 2 * pair);
    }
  }
  for (; pair < half_dims; ++pair) {
    const uint i = split ? pair : 2 * pair;
    const uint j = split ? pair + half_dims : 2 * pair + 1;
    const float a = x[i];
    const float b = x[j];
    const float2 t = angles[pair];
    out[i] = mz_fma(a, t.x, -(b * t.y));
    out[j] = mz_fma(a, t.y, b * t.x);
  }
  for (uint dim = rotated; dim < head_dim; ++dim) out[dim] = x[dim];
}

static inline void mz_rope_store_item(__global float* q, __global const float* k,
                                      __global const float* v, __global const float2* angles,
                                      __global uchar* kv_base, __global const ulong* table,
                                      ulong table_first, uint heads, uint kv_heads, uint head_dim,
                                      uint first_position, uint tokens, uint rotated, uint split,
                                      uint token, uint slot) {
  if (token >= tokens || slot >= heads + 2 * kv_heads) return;
  __global const float2* t = angles + (ulong)token * (rotated / 2);
  __private float head[256];
  if (slot < heads) {
    if (rotated == 0) return;
    __global float* x = q + ((ulong)token * heads + slot) * head_dim;
    mz_rotate(x, t, rotated, rotated, split, head);
    for (uint dim = 0; dim < rotated; ++dim) x[dim] = head[dim];
    return;
  }
  const uint position = first_position + token;
  const uint in_chunk = position % MZ_CHUNK_TOKENS;
  __global uchar* chunk = mz_chunk(kv_base, table + table_first, position / MZ_CHUNK_TOKENS);
  const uint kv_head = (slot - heads) % kv_heads;
  if (slot < heads + kv_heads) {
    mz_rotate(k + ((ulong)token * kv_heads + kv_head) * head_dim, t, head_dim, rotated, split, head);
    __global uchar* to = chunk + mz_key_offset(kv_head, head_dim, in_chunk, 0);
    for (uint dim = 0; dim < head_dim; ++dim) mz_store_half(head[dim], to + dim * 64);
  } else {
    __global const float* x = v + ((ulong)token * kv_heads + kv_head) * head_dim;
    for (uint block = 0; block < head_dim; block += 32) {
      __global uchar* to = chunk + mz_value_offset(kv_heads, kv_head, head_dim, in_chunk, block);
      const uint width = min(32u, head_dim - block);
      for (uint i = 0; i < width; ++i) mz_store_half(x[block + i], to + i * 2);
    }
  }
}

#if !MZ_CPU
MZ_KERNEL void mz_rope_store(__global const int* stop, __global float* q, __global const float* k,
                            __global const float* v, __global const float2* angles,
                            __global uchar* kv_base, __global const ulong* table,
                            ulong table_first, uint heads, uint kv_heads, uint head_dim,
                            uint first_position, uint tokens, uint rotated, uint split) {
  if (mz_stopped(stop)) return;
  mz_rope_store_item(q, k, v, angles, kv_base, table, table_first, heads, kv_heads, head_dim,
                     first_position, tokens, rotated, split, get_global_id(0), get_global_id(1));
}
#endif
