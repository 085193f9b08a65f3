// The q8 kernels over a vector type `Simd`, which the including file defines in the same unnamed
// namespace for its instruction set (no symbol of a newer instruction set may be shared):
//   kWidth; Float, Int; set1, load (FP16 → FP32), store, stream (FP32 → FP16), add, sub, mul, min,
//   max, less_magnitude(a, b, if_less, otherwise), inverse(top, range) (0 where range is 0),
//   reduce_min, reduce_max, round (nearest even), through_half, codes_load, codes_store_row (32), to_float,
//   all_wide(range, far) (|range| ≥ |far| / 2 and ≥ 2^-13 in every lane; false for NaN);
//   Flags, flag(flags, scaled, code) (Inf, NaN), flag_change(flags, code, again), flagged(flags).
// Included inside namespace mzcache::codec { namespace { … } }.

constexpr std::uint32_t kVectors = kLanes / Simd::kWidth;
constexpr std::size_t kVectorBytes = std::size_t{2} * Simd::kWidth;  // of FP16

struct SimdGroup {
  Simd::Float near;
  Simd::Float step;
  Simd::Float inverse;
};

inline SimdGroup simd_group(Simd::Float near, Simd::Float far, float top) {
  const Simd::Float range = Simd::sub(far, near);
  return {near, Simd::mul(range, Simd::set1(1.0F / top)), Simd::inverse(top, range)};
}

// The ends of a range as near and far; adding zero makes -0 and 0 one parameter.
inline void order_ends(Simd::Float low, Simd::Float high, Simd::Float& near, Simd::Float& far) {
  const Simd::Float zero = Simd::set1(0.0F);
  near = Simd::add(Simd::less_magnitude(high, low, high, low), zero);
  far = Simd::add(Simd::less_magnitude(high, low, low, high), zero);
}

inline Simd::Float value_of(const SimdGroup& group, Simd::Float code) {
  return Simd::add(group.near, Simd::mul(code, group.step));
}

// Whether every code is sure to be a fixed point: FP16 at far, the coarsest in the range, rounds by
// at most a quarter of a step (a unit in the last place is at most 2^-10 of far, or 2^-24, a step
// is range / 255), so nothing comes near the tie at half a step.
inline bool surely_stable(Simd::Float near, Simd::Float far) {
  return Simd::all_wide(Simd::sub(far, near), far);
}

template <bool kChecked>
inline Simd::Int encode_vector(const SimdGroup& group, const std::byte* values,
                               Simd::Flags& flags) {
  const Simd::Float scaled = Simd::mul(Simd::sub(Simd::load(values), group.near), group.inverse);
  const Simd::Int code = Simd::round(scaled);
  Simd::flag(flags, scaled, code);
  if constexpr (kChecked) {
    const Simd::Float decoded = Simd::through_half(value_of(group, Simd::to_float(code)));
    const Simd::Int again = Simd::round(Simd::mul(Simd::sub(decoded, group.near), group.inverse));
    Simd::flag_change(flags, code, again);
  }
  return code;
}

// 32 lanes of groups, or of one group.
template <bool kChecked, bool kPerLane>
inline void encode_32(const SimdGroup* groups, const std::byte* values, std::byte* codes,
                      Simd::Flags& flags) {
  Simd::Int row[kVectors];
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    row[v] = encode_vector<kChecked>(groups[kPerLane ? v : 0], values + v * kVectorBytes, flags);
  }
  Simd::codes_store_row(codes, row);
}

template <bool kChecked>
inline void encode_column(const SimdGroup* groups, const std::byte* values, std::uint32_t rows,
                          std::byte* codes, Simd::Flags& flags) {
  for (std::uint32_t row = 0; row < rows; ++row) {
    encode_32<kChecked, true>(groups, values + std::size_t{row} * 2 * kLanes,
                              codes + std::size_t{row} * kLanes, flags);
  }
}

template <bool kChecked>
inline void encode_row(const SimdGroup& group, const std::byte* left, const std::byte* right,
                       std::byte* codes, Simd::Flags& flags) {
  encode_32<kChecked, false>(&group, left, codes, flags);
  encode_32<kChecked, false>(&group, right, codes + kLanes, flags);
}

inline bool encode_lanes(const std::byte* values, std::uint32_t rows, std::byte* near_values,
                         std::byte* far_values, std::byte* codes, float top) {
  Simd::Float low[kVectors];
  Simd::Float high[kVectors];
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    low[v] = high[v] = Simd::load(values + v * kVectorBytes);
  }
  for (std::uint32_t row = 1; row < rows; ++row) {
    const std::byte* const at = values + std::size_t{row} * 2 * kLanes;
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      const Simd::Float value = Simd::load(at + v * kVectorBytes);
      low[v] = Simd::min(low[v], value);
      high[v] = Simd::max(high[v], value);
    }
  }
  SimdGroup groups[kVectors];
  bool stable = true;
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    Simd::Float near;
    Simd::Float far;
    order_ends(low[v], high[v], near, far);
    Simd::store(near_values + v * kVectorBytes, near);
    Simd::store(far_values + v * kVectorBytes, far);
    groups[v] = simd_group(near, far, top);
    stable = stable && surely_stable(near, far);
  }
  Simd::Flags flags{};
  if (stable) {
    encode_column<false>(groups, values, rows, codes, flags);
  } else {
    encode_column<true>(groups, values, rows, codes, flags);
  }
  return !Simd::flagged(flags);
}

template <bool kStreaming>
inline void decode_vector(const SimdGroup& group, const std::byte* codes, std::byte* out) {
  const Simd::Float value = value_of(group, Simd::codes_load(codes));
  if constexpr (kStreaming) {
    Simd::stream(out, value);
  } else {
    Simd::store(out, value);
  }
}

template <bool kStreaming>
inline void decode_lanes_as(const std::byte* codes, std::uint32_t rows,
                            const std::byte* near_values, const std::byte* far_values,
                            std::byte* out, float top) {
  SimdGroup groups[kVectors];
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    groups[v] = simd_group(Simd::load(near_values + v * kVectorBytes),
                           Simd::load(far_values + v * kVectorBytes), top);
  }
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      decode_vector<kStreaming>(groups[v], codes + v * Simd::kWidth, out + v * kVectorBytes);
    }
    codes += kLanes;
    out += std::size_t{2} * kLanes;
  }
}

inline void decode_lanes(const std::byte* codes, std::uint32_t rows, const std::byte* near_values,
                         const std::byte* far_values, std::byte* out, bool streaming, float top) {
  if (streaming) {
    decode_lanes_as<true>(codes, rows, near_values, far_values, out, top);
  } else {
    decode_lanes_as<false>(codes, rows, near_values, far_values, out, top);
  }
}

inline bool encode_rows(const std::byte* left, const std::byte* right, std::size_t stride,
                        std::uint32_t tokens, std::byte* near_values, std::byte* far_values,
                        std::byte* codes, float top) {
  Simd::Flags flags{};
  for (std::uint32_t token = 0; token < tokens; ++token) {
    Simd::Float low = Simd::load(left);
    Simd::Float high = low;
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      const Simd::Float a = Simd::load(left + v * kVectorBytes);
      const Simd::Float b = Simd::load(right + v * kVectorBytes);
      low = Simd::min(low, Simd::min(a, b));
      high = Simd::max(high, Simd::max(a, b));
    }
    Simd::Float near;
    Simd::Float far;
    order_ends(Simd::reduce_min(low), Simd::reduce_max(high), near, far);
    Simd::store_one(near_values + 2 * std::size_t{token}, near);
    Simd::store_one(far_values + 2 * std::size_t{token}, far);
    const SimdGroup group = simd_group(near, far, top);
    if (surely_stable(near, far)) {
      encode_row<false>(group, left, right, codes, flags);
    } else {
      encode_row<true>(group, left, right, codes, flags);
    }
    codes += kGroupValues;
    left += stride;
    right += stride;
  }
  return !Simd::flagged(flags);
}

template <bool kStreaming>
inline void decode_rows_as(const std::byte* codes, std::uint32_t tokens,
                           const std::byte* near_values, const std::byte* far_values,
                           std::byte* left, std::byte* right, std::size_t stride, float top) {
  for (std::uint32_t token = 0; token < tokens; ++token) {
    const Simd::Float near = Simd::load_one(near_values + 2 * std::size_t{token});
    const Simd::Float far = Simd::load_one(far_values + 2 * std::size_t{token});
    const Simd::Float step = Simd::mul(Simd::sub(far, near), Simd::set1(1.0F / top));
    const SimdGroup group{near, step, step};
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      decode_vector<kStreaming>(group, codes + v * Simd::kWidth, left + v * kVectorBytes);
    }
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      decode_vector<kStreaming>(group, codes + kLanes + v * Simd::kWidth, right + v * kVectorBytes);
    }
    codes += kGroupValues;
    left += stride;
    right += stride;
  }
}

inline void decode_rows(const std::byte* codes, std::uint32_t tokens, const std::byte* near_values,
                        const std::byte* far_values, std::byte* left, std::byte* right,
                        std::size_t stride, bool streaming, float top) {
  if (streaming) {
    decode_rows_as<true>(codes, tokens, near_values, far_values, left, right, stride, top);
  } else {
    decode_rows_as<false>(codes, tokens, near_values, far_values, left, right, stride, top);
  }
}
