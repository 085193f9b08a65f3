// Rotary position embedding of Q (in place) and K, and K, V to FP16 in the KV chunks.
// One work-item per (token, head slot); slots: query heads, then K heads, then V heads.
// `angles`: [token][rotated/2] pairs (cos, sin), made for the slice; rotated = 0: no rotation.
// split 0: pairs (2i, 2i+1); 1: pairs (i, i + rotated/2).

static inline float mz_rotated(__global const float* x, uint dim, __global const float2* angles,
                               uint rotated, uint split) {
  if (dim >= rotated) return x[dim];
  const uint half_dims = rotated / 2;
  const uint pair = split ? dim % half_dims : dim / 2;
  const uint second = split ? dim >= half_dims : dim & 1;
  const float a = x[split ? pair : 2 * pair];
  const float b = x[split ? pair + half_dims : 2 * pair + 1];
  const float2 t = angles[pair];
  return second ? mz_fma(a, t.y, b * t.x) : mz_fma(a, t.x, -(b * t.y));
}

MZ_KERNEL void mz_rope_store(__global const int* stop, __global float* q, __global const float* k,
                            __global const float* v, __global const float2* angles,
                            __global uchar* kv_base, __global const ulong* table, ulong table_first, uint heads,
                            uint kv_heads, uint head_dim, uint first_position, uint tokens,
                            uint rotated, uint split) {
  const uint token = get_global_id(0);
  const uint slot = get_global_id(1);
  if (mz_stopped(stop) || token >= tokens || slot >= heads + 2 * kv_heads) return;
  __global const float2* t = angles + (ulong)token * (rotated / 2);
  if (slot < heads) {
    __global float* x = q + ((ulong)token * heads + slot) * head_dim;
    const uint half_dims = rotated / 2;
    for (uint pair = 0; pair < half_dims; ++pair) {
      const uint i = split ? pair : 2 * pair;
      const uint j = split ? pair + half_dims : 2 * pair + 1;
      const float a = x[i];
      const float b = x[j];
      x[i] = mz_fma(a, t[pair].x, -(b * t[pair].y));
      x[j] = mz_fma(a, t[pair].y, b * t[pair].x);
    }
    return;
  }
  const uint position = first_position + token;
  const uint in_chunk = position % MZ_CHUNK_TOKENS;
  __global uchar* chunk = mz_chunk(kv_base, table + table_first, position / MZ_CHUNK_TOKENS);
  const uint kv_head = (slot - heads) % kv_heads;
  if (slot < heads + kv_heads) {
    __global const float* x = k + ((ulong)token * kv_heads + kv_head) * head_dim;
    for (uint dim = 0; dim < head_dim; ++dim) {
      mz_store_half(mz_rotated(x, dim, t, rotated, split),
                    chunk + mz_key_offset(kv_head, head_dim, in_chunk, dim));
    }
  } else {
    __global const float* x = v + ((ulong)token * kv_heads + kv_head) * head_dim;
    for (uint dim = 0; dim < head_dim; ++dim) {
      mz_store_half(x[dim], chunk + mz_value_offset(kv_heads, kv_head, head_dim, in_chunk, dim));
    }
  }
}
