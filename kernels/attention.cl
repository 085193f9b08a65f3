// Causal attention over the chunks of one layer, with an online softmax (one rescale per chunk).
// Query rows that share a KV head are taken together: row r of KV head h is token r / group, query
// head h·group + r % group. A work-item takes up to MZ_ROWS rows × one KV head × one range of chunks;
// ranges are fixed by the host from sizes alone and merged in order, so the result never depends on
// timing.
// Positions a row may not see are never multiplied: chunks hold garbage behind the last token.

#define MZ_LOWEST (-1.0e30f)

// Scores of one K tile for `rows` rows, and their P·V for 32 dims over the tokens [begin, end).
#if MZ_NARROW
#define MZ_ROWS 24u
static inline void mz_keys(mz_bytes keys, uint head_dim, uint rows, __global const float** query,
                           __private float* scores, mz_bytes ahead);
static inline void mz_values(mz_bytes values, uint begin, uint end, uint rows,
                             __private const float* scores, __private const float* scale,
                             __private float* sums, uint stride, mz_bytes ahead);
#else
// Eight at a time. More share what is decoded of an encoded chunk.
#if MZ_CPU
#define MZ_ROWS 24u
#else
#define MZ_ROWS 8u
#endif

#define MZ_KEY_ZERO(I) float16 a##I = (float16)(0.0f), b##I = a##I;
#define MZ_KEY_STEP(I)                                                  \
  {                                                                     \
    const float16 x = (float16)(q##I[d]);                               \
    a##I = mz_fma16(x, k0, a##I);                                       \
    b##I = mz_fma16(x, k1, b##I);                                       \
  }
#define MZ_KEY_STORE(I)                                                 \
  vstore16(a##I, 0, scores + I * MZ_CHUNK_TOKENS);                      \
  vstore16(b##I, 1, scores + I * MZ_CHUNK_TOKENS);
#define MZ_KEY_QUERY(I) __global const float* q##I = query[I];

#define MZ_VALUE_LOAD(I)                                                \
  float16 a##I = vload16(0, sums + I * stride) * scale[I];              \
  float16 b##I = vload16(1, sums + I * stride) * scale[I];
#define MZ_VALUE_STEP(I)                                                \
  {                                                                     \
    const float16 p = (float16)(scores[I * MZ_CHUNK_TOKENS + t]);       \
    a##I = mz_fma16(p, v0, a##I);                                       \
    b##I = mz_fma16(p, v1, b##I);                                       \
  }
#define MZ_VALUE_STORE(I)                                               \
  vstore16(a##I, 0, sums + I * stride);                                 \
  vstore16(b##I, 1, sums + I * stride);

// The same code for 1, 4 and 8 rows.
#define MZ_ATTENTION_TILES(SUFFIX, ROWS_OF)                                                       \
  static inline void mz_keys_##SUFFIX(mz_bytes keys, uint head_dim, __global const float** query, \
                                      __private float* scores, mz_bytes ahead) {                  \
    ROWS_OF(MZ_KEY_QUERY)                                                                         \
    ROWS_OF(MZ_KEY_ZERO)                                                                          \
    for (uint d = 0; d < head_dim; ++d) {                                                         \
      MZ_PREFETCH(ahead + (size_t)d * 64);                                                        \
      const float16 k0 = mz_load_half16(keys + (size_t)d * 64);                                   \
      const float16 k1 = mz_load_half16(keys + (size_t)d * 64 + 32);                              \
      ROWS_OF(MZ_KEY_STEP)                                                                        \
    }                                                                                             \
    ROWS_OF(MZ_KEY_STORE)                                                                         \
  }                                                                                               \
  static inline void mz_values_##SUFFIX(mz_bytes values, uint begin, uint end,                    \
                                        __private const float* scores,                            \
                                        __private const float* scale, __private float* sums,      \
                                        uint stride, mz_bytes ahead) {                            \
    ROWS_OF(MZ_VALUE_LOAD)                                                                        \
    for (uint t = begin; t < end; ++t) {                                                          \
      MZ_PREFETCH(ahead + (size_t)t * 64);                                                        \
      const float16 v0 = mz_load_half16(values + (size_t)t * 64);                                 \
      const float16 v1 = mz_load_half16(values + (size_t)t * 64 + 32);                            \
      ROWS_OF(MZ_VALUE_STEP)                                                                      \
    }                                                                                             \
    ROWS_OF(MZ_VALUE_STORE)                                                                       \
  }

MZ_ATTENTION_TILES(1, MZ_ONE)
MZ_ATTENTION_TILES(4, MZ_FOUR)
MZ_ATTENTION_TILES(8, MZ_EIGHT)

static inline void mz_keys(mz_bytes keys, uint head_dim, uint rows, __global const float** query,
                           __private float* scores, mz_bytes ahead) {
  for (uint r = 0; r < rows; r += 8) {
    __private float* to = scores + r * MZ_CHUNK_TOKENS;
    if (rows - r == 1) mz_keys_1(keys, head_dim, query + r, to, ahead);
    else if (rows - r <= 4) mz_keys_4(keys, head_dim, query + r, to, ahead);
    else mz_keys_8(keys, head_dim, query + r, to, ahead);
  }
}
static inline void mz_values(mz_bytes values, uint begin, uint end, uint rows,
                             __private const float* scores, __private const float* scale,
                             __private float* sums, uint stride, mz_bytes ahead) {
  for (uint r = 0; r < rows; r += 8) {
    __private const float* p = scores + r * MZ_CHUNK_TOKENS;
    __private float* to = sums + r * stride;
    if (rows - r == 1) mz_values_1(values, begin, end, p, scale + r, to, stride, ahead);
    else if (rows - r <= 4) mz_values_4(values, begin, end, p, scale + r, to, stride, ahead);
    else mz_values_8(values, begin, end, p, scale + r, to, stride, ahead);
  }
}
#endif

// The last block of dims where head_dim is no multiple of 32.
static inline void mz_values_narrow(mz_bytes values, uint width, uint begin, uint end, uint rows,
                                    __private const float* scores, __private const float* scale,
                                    __private float* sums, uint stride) {
  for (uint r = 0; r < rows; ++r) {
    for (uint d = 0; d < width; ++d) sums[r * stride + d] *= scale[r];
    for (uint t = begin; t < end; ++t) {
      const float p = scores[r * MZ_CHUNK_TOKENS + t];
      for (uint d = 0; d < width; ++d) {
        const float v = mz_load_half(values + ((size_t)t * width + d) * 2);
        sums[r * stride + d] = mz_fma(p, v, sums[r * stride + d]);
      }
    }
  }
}

// ---- What an item asks of a chunk

typedef struct {
  mz_bytes data;
  uint kv_heads, head_dim, kv_head;
} mz_head_of_chunk;

// A chunk may also lie encoded, where the CPU set is to read it: its address is odd then
// (kernels/cpu/attention_encoded.cl). `room` is for what is decoded of it.
#if MZ_CPU
#define MZ_ROOM (MZ_CHUNK_TOKENS * 32u)
static inline int mz_encoded(mz_bytes chunk) { return (int)((size_t)chunk & 1); }
static inline mz_bytes mz_encoded_begin(mz_head_of_chunk c, uint half_index);
static inline void mz_encoded_keys(mz_head_of_chunk c, uint token, uint rows,
                                   __global const float** query, __private float* scores,
                                   __private ushort* room, mz_bytes ahead);
static inline mz_bytes mz_encoded_values(mz_head_of_chunk c, uint dim, uint begin, uint end,
                                         uint rows, __private const float* scores,
                                         __private const float* scale, __private float* sums,
                                         uint stride, __private ushort* room, mz_bytes ahead);
#else
#define MZ_ROOM 1u
static inline int mz_encoded(mz_bytes chunk) { return 0; }
#endif

// Where the head's keys (0) or values (1) begin, which is asked for ahead, and bytes of one value.
static inline mz_bytes mz_head_begin(mz_head_of_chunk c, uint half_index) {
#if MZ_CPU
  if (mz_encoded(c.data)) return mz_encoded_begin(c, half_index);
#endif
  if (half_index == 0) return c.data + mz_key_offset(c.kv_head, c.head_dim, 0, 0);
  return c.data + mz_value_offset(c.kv_heads, c.kv_head, c.head_dim, 0, 0);
}
static inline size_t mz_value_bytes(mz_head_of_chunk c) { return mz_encoded(c.data) ? 1 : 2; }

// Scores of the head's tile of keys that begins with `token`.
static inline void mz_head_keys(mz_head_of_chunk c, uint token, uint rows,
                                __global const float** query, __private float* scores,
                                __private ushort* room, mz_bytes ahead) {
#if MZ_CPU
  if (mz_encoded(c.data)) {
    mz_encoded_keys(c, token, rows, query, scores, room, ahead);
    return;
  }
#endif
  mz_keys(c.data + mz_key_offset(c.kv_head, c.head_dim, token, 0), c.head_dim, rows, query, scores,
          ahead);
}

// Sums of the head's values from `dim` on, 32 of them or those there are.
static inline void mz_head_values(mz_head_of_chunk c, uint dim, uint begin, uint end, uint rows,
                                  __private const float* scores, __private const float* scale,
                                  __private float* sums, uint stride, __private ushort* room,
                                  mz_bytes ahead) {
  mz_bytes values = c.data + mz_value_offset(c.kv_heads, c.kv_head, c.head_dim, 0, dim);
#if MZ_CPU
  if (mz_encoded(c.data)) {
    values = mz_encoded_values(c, dim, begin, end, rows, scores, scale, sums, stride, room, ahead);
    if (values == 0) return;
  }
#endif
  if (c.head_dim - dim < 32) {
    mz_values_narrow(values, c.head_dim - dim, begin, end, rows, scores, scale, sums, stride);
  } else {
    mz_values(values, begin, end, rows, scores, scale, sums, stride, ahead);
  }
}

// s where its sixteen tokens from t on are visible, `hidden` elsewhere. Most vectors are visible as a
// whole: only those on an edge pay for the comparison.
static inline float16 mz_visible16(float16 s, int t, int low, int high, float hidden) {
  if (t >= low && t + 16 <= high) return s;
  if (t >= high || t + 16 <= low) return (float16)(hidden);
  const int16 token = as_int16(MZ_IOTA16) + t;
  return ((token >= low) & (token < high)) ? s : (float16)(hidden);
}

// One row's scores of one chunk to probabilities relative to the row's running maximum.
// Tokens [begin, end) of the chunk; those outside [low, high) are invisible to this row.
static inline float mz_softmax_row(__private float* scores, uint begin, uint end, int low, int high,
                                   float scale, float softcap, __private float* largest,
                                   __private float* total) {
  float16 peak = (float16)(MZ_LOWEST);
  for (uint t = begin; t < end; t += 16) {
    float16 s = vload16(0, scores + t) * scale;
    if (softcap > 0.0f) s = mz_tanh16(s / softcap) * softcap;
    s = mz_visible16(s, (int)t, low, high, MZ_LOWEST);
    vstore16(s, 0, scores + t);
    peak = mz_max16(peak, s);
  }
  const float before = *largest;
  const float here = mz_largest16(peak);
  const float now = here > before ? here : before;
  float16 sum = (float16)(0.0f);
  for (uint t = begin; t < end; t += 16) {
    float16 p = (float16)(0.0f);
    if ((int)t < high && (int)t + 16 > low) {
      p = mz_exp2_16((vload16(0, scores + t) - now) * MZ_LOG2E);
      p = mz_visible16(p, (int)t, low, high, 0.0f);
    }
    vstore16(p, 0, scores + t);
    sum += p;
  }
  const float rescale = mz_exp2((before - now) * MZ_LOG2E);
  *largest = now;
  *total = mz_fma(*total, rescale, mz_sum16(sum));
  return rescale;
}

// out: with one range the attention output [token][head][head_dim]; else per range the sums before
// division, and in `weights` [range][token][head] (largest score, sum of probabilities).
static inline void mz_attention_item(__global const float* q, __global float* out,
                                     __global float2* weights, __global uchar* kv_base,
                                     __global const ulong* table, ulong table_first, uint heads,
                                     uint kv_heads, uint head_dim, uint first_position,
                                     uint tokens, uint window, float score_scale, float softcap,
                                     uint first_chunk, uint ranges, uint range_chunks,
                                     uint rows_each, uint row_block, uint kv_head, uint range) {
  const uint group = heads / max(kv_heads, 1u);
  const uint first_row = row_block * rows_each;
  if (first_row >= tokens * group || kv_head >= kv_heads || range >= ranges) return;
  const uint rows = min(rows_each, tokens * group - first_row);
  const uint stride = (head_dim + 31) / 32 * 32;
  __private float scores[MZ_ROWS * MZ_CHUNK_TOKENS] __attribute__((aligned(64)));
  __private float sums[MZ_ROWS * 256] __attribute__((aligned(64)));
  __private float largest[MZ_ROWS], total[MZ_ROWS], rescale[MZ_ROWS];
  __private ushort room[MZ_ROOM] __attribute__((aligned(64)));
  __global const float* query[MZ_ROWS];
  int high[MZ_ROWS], low[MZ_ROWS];  // visible positions [low, high) of each row
  for (uint r = 0; r < MZ_ROWS; ++r) {
    const uint row = first_row + min(r, rows - 1);
    const uint token = row / group;
    query[r] = q + ((ulong)token * heads + kv_head * group + row % group) * head_dim;
    high[r] = (int)(first_position + token + 1);
    low[r] = window != 0 && high[r] > (int)window ? high[r] - (int)window : 0;
    largest[r] = MZ_LOWEST;
    total[r] = 0.0f;
  }
  for (uint i = 0; i < (rows + 3) / 4 * 4 * stride; i += 16) vstore16((float16)(0.0f), 0, sums + i);

  const uint chunk_begin = first_chunk + range * range_chunks;
  const uint chunk_end =
      min(chunk_begin + range_chunks, ((uint)high[rows - 1] + MZ_CHUNK_TOKENS - 1) / MZ_CHUNK_TOKENS);
  for (uint chunk = chunk_begin; chunk < chunk_end; ++chunk) {
    const int base = (int)(chunk * MZ_CHUNK_TOKENS);
    const uint begin = (uint)max(low[0] - base, 0);  // ascending with the rows
    const uint end = (uint)min(high[rows - 1] - base, (int)MZ_CHUNK_TOKENS);
    if (begin >= end) continue;
    const mz_head_of_chunk here = {(mz_bytes)mz_chunk(kv_base, table + table_first, chunk), kv_heads,
                                   head_dim, kv_head};
    const uint tile_begin = begin / MZ_TILE_TOKENS * MZ_TILE_TOKENS;
    // This head's values of the chunk come next, and are as long as its keys.
    mz_bytes values = mz_head_begin(here, 1);
    for (uint t = tile_begin; t < end; t += MZ_TILE_TOKENS) {
      mz_head_keys(here, t, rows, query, scores + t, room,
                   values + t * head_dim * mz_value_bytes(here));
    }
    const uint tile_end = (end + MZ_TILE_TOKENS - 1) / MZ_TILE_TOKENS * MZ_TILE_TOKENS;
    for (uint r = 0; r < MZ_ROWS; ++r) {
      if (r >= rows) { rescale[r] = 1.0f; continue; }
      rescale[r] = mz_softmax_row(scores + r * MZ_CHUNK_TOKENS, tile_begin, tile_end, low[r] - base,
                                  high[r] - base, score_scale, softcap, largest + r, total + r);
    }
    // Meanwhile the keys of the next chunk.
    mz_head_of_chunk next = here;
    if (chunk + 1 < chunk_end) {
      next.data = (mz_bytes)mz_chunk(kv_base, table + table_first, chunk + 1);
    }
    mz_bytes keys = mz_head_begin(next, 0);
    for (uint dim = 0; dim < head_dim; dim += 32) {
      mz_head_values(here, dim, begin, end, rows, scores, rescale, sums + dim, stride, room,
                     keys + dim * MZ_CHUNK_TOKENS * mz_value_bytes(next));
    }
  }

  for (uint r = 0; r < rows; ++r) {
    const ulong token_head = (ulong)(query[r] - q) / head_dim;
    __global float* to = out + ((ulong)range * tokens * heads + token_head) * head_dim;
    const float divide = ranges == 1 ? 1.0f / total[r] : 1.0f;
    for (uint d = 0; d < head_dim; ++d) to[d] = sums[r * stride + d] * divide;
    if (ranges != 1) {
      weights[(ulong)range * tokens * heads + token_head] = (float2)(largest[r], total[r]);
    }
  }
}

// Combines the ranges in order: one work-item per (token, head).
static inline void mz_attention_merge_item(__global const float* partial,
                                           __global const float2* weights, __global float* out,
                                           uint token_heads, uint head_dim, uint ranges, uint i) {
  if (i >= token_heads) return;
  float largest = MZ_LOWEST;
  for (uint r = 0; r < ranges; ++r) largest = max(largest, weights[(ulong)r * token_heads + i].x);
  __global float* to = out + (ulong)i * head_dim;
  float total = 0.0f;
  for (uint d = 0; d < head_dim; ++d) to[d] = 0.0f;
  for (uint r = 0; r < ranges; ++r) {
    const float2 w = weights[(ulong)r * token_heads + i];
    if (w.y == 0.0f) continue;  // saw nothing
    const float scale = mz_exp2((w.x - largest) * MZ_LOG2E);
    total = mz_fma(w.y, scale, total);
    __global const float* from = partial + ((ulong)r * token_heads + i) * head_dim;
    for (uint d = 0; d < head_dim; ++d) to[d] = mz_fma(from[d], scale, to[d]);
  }
  for (uint d = 0; d < head_dim; ++d) to[d] /= total;
}

#if !MZ_CPU
MZ_KERNEL void mz_attention(__global const int* stop, __global const float* q, __global float* out,
                           __global float2* weights, __global uchar* kv_base,
                           __global const ulong* table, ulong table_first, uint heads,
                           uint kv_heads, uint head_dim, uint first_position, uint tokens,
                           uint window, float score_scale, float softcap, uint first_chunk,
                           uint ranges, uint range_chunks) {
  if (mz_stopped(stop)) return;
  mz_attention_item(q, out, weights, kv_base, table, table_first, heads, kv_heads, head_dim,
                    first_position, tokens, window, score_scale, softcap, first_chunk, ranges,
                    range_chunks, MZ_ROWS, get_global_id(0), get_global_id(1), get_global_id(2));
}
MZ_KERNEL void mz_attention_merge(__global const int* stop, __global const float* partial,
                                 __global const float2* weights, __global float* out,
                                 uint token_heads, uint head_dim, uint ranges) {
  if (mz_stopped(stop)) return;
  mz_attention_merge_item(partial, weights, out, token_heads, head_dim, ranges, get_global_id(0));
}
#endif
