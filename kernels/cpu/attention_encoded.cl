// Chunks that attention reads while they lie encoded in 8 bits (codec q8), full ones only: the
// address in the table, with its lowest bit set, is that of their grouped form. Values are those that
// decoding gives, rounded to FP16 as there, and sums are taken in the same order: the same bits.
//
// Few rows take values as they are decoded. More, and what does not fit vectors, go by way of a tile
// of keys, or a block of values, that an item decodes to FP16 in the order of a decoded chunk.
//
// Grouped form of 256 tokens, n = kv_heads · head_dim, G = ceil(n / 64) groups of 64 channels (the
// last may have fewer):
//   parameters  [K, V][G][near, far][256] FP16
//   codes       K [G][token/32][channel][32 tokens], V [G][token][channel], a byte each
// A value is near + code · (far − near) / 255, rounded to FP16.

#define MZ_GROUP 64u
#define MZ_PARAMETER_BYTES (MZ_CHUNK_TOKENS * 2u)
#define MZ_CODE_STEP (1.0f / 255.0f)

static inline void mz_store_half16(float16 x, __private ushort* to) {
  *(__private mz_half16*)to = __builtin_convertvector(x, mz_half16);
}

static inline mz_bytes mz_grouped(mz_bytes tagged) { return tagged - 1; }
// Near values of a group of K (half 0) or V (half 1); the far ones follow.
static inline mz_bytes mz_near(mz_bytes grouped, uint width, uint half_index, uint group) {
  const uint groups = (width + MZ_GROUP - 1) / MZ_GROUP;
  return grouped + (size_t)(half_index * groups + group) * 2 * MZ_PARAMETER_BYTES;
}
static inline mz_bytes mz_codes(mz_bytes grouped, uint width, uint half_index, uint group) {
  const size_t before = (size_t)half_index * width + group * MZ_GROUP;
  return mz_near(grouped, width, 2, 0) + before * MZ_CHUNK_TOKENS;
}
static inline uint mz_group_width(uint width, uint group) {
  return min(MZ_GROUP, width - group * MZ_GROUP);
}
// Of 16 tokens.
static inline void mz_group16(mz_bytes near_values, float16* near_value, float16* step) {
  const float16 far = mz_load_half16(near_values + MZ_PARAMETER_BYTES);
  *near_value = mz_load_half16(near_values);
  *step = (far - *near_value) * MZ_CODE_STEP;
}
static inline float16 mz_decode16(mz_bytes codes, float16 near_value, float16 step) {
  return near_value + __builtin_convertvector(mz_load_u16(codes), float16) * step;
}

// Codes of a channel of K for the 32 tokens from `token` on, and what their group makes of them.
static inline mz_bytes mz_key_codes(mz_bytes grouped, uint width, uint channel, uint token,
                                    float16* near0, float16* step0, float16* near1,
                                    float16* step1) {
  const uint group = channel / MZ_GROUP;
  mz_bytes near_values = mz_near(grouped, width, 0, group) + token * 2;
  mz_group16(near_values, near0, step0);
  mz_group16(near_values + 32, near1, step1);
  return mz_codes(grouped, width, 0, group) + token * mz_group_width(width, group) +
         channel % MZ_GROUP * 32;
}

// Keys of the head that begins at channel `first`: [head_dim][32 tokens] from `token` on.
static inline void mz_decode_keys(mz_bytes grouped, uint width, uint first, uint head_dim,
                                  uint token, __private ushort* room) {
  __private ushort* to = room;
  for (uint d = 0; d < head_dim;) {
    const uint group = (first + d) / MZ_GROUP;
    const uint end = min(head_dim, (group + 1) * MZ_GROUP - first);
    float16 near0, step0, near1, step1;
    mz_bytes codes =
        mz_key_codes(grouped, width, first + d, token, &near0, &step0, &near1, &step1);
    for (; d < end; ++d, codes += 32, to += 32) {
      mz_store_half16(mz_decode16(codes, near0, step0), to);
      mz_store_half16(mz_decode16(codes + 16, near1, step1), to + 16);
    }
  }
}

// Values of `count` channels from `first` on, all of one group, tokens [begin, end), into columns of
// [256 tokens][block] halves.
static inline void mz_decode_columns(mz_bytes grouped, uint width, uint first, uint count,
                                     uint begin, uint end, uint block, __private ushort* room) {
  const uint group = first / MZ_GROUP;
  const uint row = mz_group_width(width, group);
  mz_bytes near_values = mz_near(grouped, width, 1, group);
  mz_bytes codes = mz_codes(grouped, width, 1, group) + (first - group * MZ_GROUP);
  float near_of[16], step_of[16];
  for (uint t = begin / 16 * 16; t < end; t += 16) {
    float16 near16, step16;
    mz_group16(near_values + t * 2, &near16, &step16);
    vstore16(near16, 0, near_of);
    vstore16(step16, 0, step_of);
    const uint last = min(end - t, 16u);
    for (uint i = 0; i < last; ++i) {
      const float near_value = near_of[i], step = step_of[i];
      mz_bytes from = codes + (size_t)(t + i) * row;
      __private ushort* to = room + (t + i) * block;
      uint d = 0;
      for (; d + 16 <= count; d += 16) {
        mz_store_half16(mz_decode16(from + d, (float16)(near_value), (float16)(step)), to + d);
      }
      for (; d < count; ++d) {
        *(__private _Float16*)(to + d) = (_Float16)(near_value + (float)from[d] * step);
      }
    }
  }
}

// Values of the head's channels first … first + block (at most 32): [256 tokens][block], of which
// tokens [begin, end) are there.
static inline void mz_decode_values(mz_bytes grouped, uint width, uint first, uint block,
                                    uint begin, uint end, __private ushort* room) {
  for (uint d = 0; d < block;) {
    const uint count = min(block - d, MZ_GROUP - (first + d) % MZ_GROUP);
    mz_decode_columns(grouped, width, first + d, count, begin, end, block, room + d);
    d += count;
  }
}

static inline mz_bytes mz_encoded_begin(mz_head_of_chunk c, uint half_index) {
  const uint width = c.kv_heads * c.head_dim, first = c.kv_head * c.head_dim;
  const uint row = half_index == 0 ? MZ_TILE_TOKENS : 1;
  return mz_codes(mz_grouped(c.data), width, half_index, first / MZ_GROUP) + first % MZ_GROUP * row;
}

#if !MZ_NARROW
#define MZ_DIRECT_ROWS 8u

static inline float16 mz_decode_half16(mz_bytes codes, float16 near_value, float16 step) {
  const float16 value = mz_decode16(codes, near_value, step);
  return __builtin_convertvector(__builtin_convertvector(value, mz_half16), float16);
}

#define MZ_DIRECT_TILES(SUFFIX, ROWS_OF)                                                           \
  static inline void mz_direct_keys_##SUFFIX(mz_bytes grouped, uint width, uint first,             \
                                             uint head_dim, uint token,                            \
                                             __global const float** query,                         \
                                             __private float* scores, mz_bytes ahead) {            \
    ROWS_OF(MZ_KEY_QUERY)                                                                          \
    ROWS_OF(MZ_KEY_ZERO)                                                                           \
    for (uint d = 0; d < head_dim;) {                                                              \
      const uint group = (first + d) / MZ_GROUP;                                                   \
      const uint end = min(head_dim, (group + 1) * MZ_GROUP - first);                              \
      float16 near0, step0, near1, step1;                                                          \
      mz_bytes codes = mz_key_codes(grouped, width, first + d, token, &near0, &step0, &near1,      \
                                    &step1);                                                       \
      for (; d < end; ++d, codes += 32) {                                                          \
        MZ_PREFETCH(ahead + (size_t)d * 32);                                                       \
        const float16 k0 = mz_decode_half16(codes, near0, step0);                                  \
        const float16 k1 = mz_decode_half16(codes + 16, near1, step1);                             \
        ROWS_OF(MZ_KEY_STEP)                                                                       \
      }                                                                                            \
    }                                                                                              \
    ROWS_OF(MZ_KEY_STORE)                                                                          \
  }                                                                                                \
  static inline void mz_direct_values_##SUFFIX(                                                    \
      mz_bytes codes, uint row, __private const float* near_of, __private const float* step_of,    \
      uint begin, uint end, __private const float* scores, __private const float* scale,           \
      __private float* sums, uint stride, mz_bytes ahead) {                                        \
    ROWS_OF(MZ_VALUE_LOAD)                                                                         \
    for (uint t = begin; t < end; ++t) {                                                           \
      MZ_PREFETCH(ahead + (size_t)t * 32);                                                         \
      const float16 near_value = (float16)(near_of[t]), step = (float16)(step_of[t]);              \
      const float16 v0 = mz_decode_half16(codes + (size_t)t * row, near_value, step);              \
      const float16 v1 = mz_decode_half16(codes + (size_t)t * row + 16, near_value, step);         \
      ROWS_OF(MZ_VALUE_STEP)                                                                       \
    }                                                                                              \
    ROWS_OF(MZ_VALUE_STORE)                                                                        \
  }

MZ_DIRECT_TILES(1, MZ_ONE)
MZ_DIRECT_TILES(2, MZ_TWO)
MZ_DIRECT_TILES(3, MZ_THREE)
MZ_DIRECT_TILES(4, MZ_FOUR)
MZ_DIRECT_TILES(8, MZ_EIGHT)

static inline void mz_direct_values(mz_bytes grouped, uint width, uint first, uint begin, uint end,
                                    uint rows, __private const float* scores,
                                    __private const float* scale, __private float* sums,
                                    uint stride, mz_bytes ahead) {
  const uint group = first / MZ_GROUP;
  const uint row = mz_group_width(width, group);
  mz_bytes near_values = mz_near(grouped, width, 1, group);
  mz_bytes codes = mz_codes(grouped, width, 1, group) + (first - group * MZ_GROUP);
  __private float near_of[MZ_CHUNK_TOKENS], step_of[MZ_CHUNK_TOKENS];
  for (uint t = begin / 16 * 16; t < end; t += 16) {
    float16 near16, step16;
    mz_group16(near_values + t * 2, &near16, &step16);
    vstore16(near16, 0, near_of + t);
    vstore16(step16, 0, step_of + t);
  }
#define MZ_DIRECT_VALUES(SUFFIX) \
  mz_direct_values_##SUFFIX(codes, row, near_of, step_of, begin, end, scores, scale, sums, stride, ahead)
  switch (rows) {
    case 1: MZ_DIRECT_VALUES(1); break;
    case 2: MZ_DIRECT_VALUES(2); break;
    case 3: MZ_DIRECT_VALUES(3); break;
    case 4: MZ_DIRECT_VALUES(4); break;
    default: MZ_DIRECT_VALUES(8); break;
  }
}
#endif

static inline void mz_encoded_keys(mz_head_of_chunk c, uint token, uint rows,
                                   __global const float** query, __private float* scores,
                                   __private ushort* room, mz_bytes ahead) {
  const uint width = c.kv_heads * c.head_dim, first = c.kv_head * c.head_dim, dims = c.head_dim;
  mz_bytes grouped = mz_grouped(c.data);
#if !MZ_NARROW
#define MZ_DIRECT_KEYS(SUFFIX) \
  mz_direct_keys_##SUFFIX(grouped, width, first, dims, token, query, scores, ahead)
  switch (rows) {
    case 1: MZ_DIRECT_KEYS(1); return;
    case 2: MZ_DIRECT_KEYS(2); return;
    case 3: MZ_DIRECT_KEYS(3); return;
    case 4: MZ_DIRECT_KEYS(4); return;
    default: break;
  }
  if (rows <= MZ_DIRECT_ROWS) {
    MZ_DIRECT_KEYS(8);
    return;
  }
#endif
  mz_decode_keys(grouped, width, first, dims, token, room);
  mz_keys((mz_bytes)(size_t)room, dims, rows, query, scores, ahead);
}

// The block as FP16, or nothing where its sums are taken already.
static inline mz_bytes mz_encoded_values(mz_head_of_chunk c, uint dim, uint begin, uint end,
                                         uint rows, __private const float* scores,
                                         __private const float* scale, __private float* sums,
                                         uint stride, __private ushort* room, mz_bytes ahead) {
  const uint width = c.kv_heads * c.head_dim, first = c.kv_head * c.head_dim + dim;
  mz_bytes grouped = mz_grouped(c.data);
#if !MZ_NARROW
  if (rows <= MZ_DIRECT_ROWS && c.head_dim - dim >= 32 && first % MZ_GROUP + 32 <= MZ_GROUP) {
    mz_direct_values(grouped, width, first, begin, end, rows, scores, scale, sums, stride, ahead);
    return 0;
  }
#endif
  mz_decode_values(grouped, width, first, min(32u, c.head_dim - dim), begin, end, room);
  return (mz_bytes)(size_t)room;
}
