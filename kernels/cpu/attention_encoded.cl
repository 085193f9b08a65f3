// Chunks that attention reads while they lie encoded in 8 bits (codec q8), full ones only: the
// address in the table, with its lowest bit set, is that of their grouped form. An item decodes what
// its head needs, a tile of keys or a block of values at a time, to FP16 in the order of a decoded
// chunk, and goes on as with that: the values, and so the sums, are the same bits.
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

// Keys of the head that begins at channel `first`: [head_dim][32 tokens] from `token` on.
static inline mz_bytes mz_decode_keys(mz_bytes tagged, uint width, uint first, uint head_dim,
                                      uint token, __private ushort* room) {
  mz_bytes grouped = mz_grouped(tagged);
  __private ushort* to = room;
  for (uint d = 0; d < head_dim;) {
    const uint group = (first + d) / MZ_GROUP;
    const uint end = min(head_dim, (group + 1) * MZ_GROUP - first);
    mz_bytes near_values = mz_near(grouped, width, 0, group) + token * 2;
    float16 near0, step0, near1, step1;
    mz_group16(near_values, &near0, &step0);
    mz_group16(near_values + 32, &near1, &step1);
    mz_bytes codes = mz_codes(grouped, width, 0, group) +
                     token * mz_group_width(width, group) + (first + d - group * MZ_GROUP) * 32;
    for (; d < end; ++d, codes += 32, to += 32) {
      mz_store_half16(mz_decode16(codes, near0, step0), to);
      mz_store_half16(mz_decode16(codes + 16, near1, step1), to + 16);
    }
  }
  return (mz_bytes)(size_t)room;
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
static inline mz_bytes mz_decode_values(mz_bytes tagged, uint width, uint first, uint block,
                                        uint begin, uint end, __private ushort* room) {
  for (uint d = 0; d < block;) {
    const uint count = min(block - d, MZ_GROUP - (first + d) % MZ_GROUP);
    mz_decode_columns(mz_grouped(tagged), width, first + d, count, begin, end, block, room + d);
    d += count;
  }
  return (mz_bytes)(size_t)room;
}

// What of the chunk a head reads first, and how far apart its tiles are: to ask for it ahead.
static inline mz_bytes mz_encoded_keys(mz_bytes tagged, uint width, uint first) {
  return mz_codes(mz_grouped(tagged), width, 0, first / MZ_GROUP) +
         first % MZ_GROUP * MZ_TILE_TOKENS;
}
static inline mz_bytes mz_encoded_values(mz_bytes tagged, uint width, uint first) {
  return mz_codes(mz_grouped(tagged), width, 1, first / MZ_GROUP);
}
