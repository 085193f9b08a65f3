// The channel kernels over a vector type `Simd`, which the including file defines in the same
// unnamed namespace for its instruction set (no symbol of a newer instruction set may be shared):
//   kWidth; Float, Int; set1, load (FP16 → FP32), load_floats, store, stream (FP32 → FP16), add,
//   sub, mul, round (nearest even), to_float, through_half, symbols_load (int16), symbols_store;
//   Flags, flag_outside(flags, scaled, code, most) (not within ±most, NaN), flag_change(flags, a,
//   b) (codes), flag_difference(flags, a, b) (values), flag_beyond(flags, a, limit) (not at most
//   limit), bits(flags) → one bit per lane; sum32(Float* vectors) → float: folds 32 lanes 16, 8, 4,
//   2, 1 apart; kFold, Partial, partial(vectors), add_folded(partials, sums): the same for kFold rows
//   at once; kDoublesBytes.
// Included inside namespace mzcache::codec { namespace { … } }.

constexpr std::uint32_t kVectors = kRowValues / Simd::kWidth;
constexpr std::size_t kVectorBytes = std::size_t{2} * Simd::kWidth;  // of FP16

struct Pair {
  Simd::Float first;
  Simd::Float second;
};

// The rotation of K, and its inverse.
inline Pair rotate(const Pair& in, Simd::Float cosine, Simd::Float sine) {
  return {Simd::sub(Simd::mul(in.first, cosine), Simd::mul(in.second, sine)),
          Simd::add(Simd::mul(in.first, sine), Simd::mul(in.second, cosine))};
}
inline Pair rotate_back(const Pair& in, Simd::Float cosine, Simd::Float sine) {
  return {Simd::add(Simd::mul(in.first, cosine), Simd::mul(in.second, sine)),
          Simd::sub(Simd::mul(in.second, cosine), Simd::mul(in.first, sine))};
}

struct Channel {
  Simd::Float mean;
  Simd::Float step;
  Simd::Float inverse;
};
inline Channel channel_of(const KeyTile& tile, std::uint32_t dim) {
  return {Simd::set1(tile.mean[dim]), Simd::set1(tile.step[dim]), Simd::set1(tile.inverse[dim])};
}
inline Simd::Float scaled(const Channel& channel, Simd::Float value) {
  return Simd::mul(Simd::sub(value, channel.mean), channel.inverse);
}
inline Simd::Float value_of(const Channel& channel, Simd::Int code) {
  return Simd::add(channel.mean, Simd::mul(Simd::to_float(code), channel.step));
}

struct PairRows {
  std::uint32_t first;
  std::uint32_t second;
};
inline PairRows pair_rows(const KeyTile& tile, std::uint32_t pair) {
  if (tile.split_halves) return {pair, pair + tile.rotated / 2};
  return {2 * pair, 2 * pair + 1};
}

struct LaneFlags {
  Simd::Flags unstable[kVectors]{};
  Simd::Flags changed[kVectors]{};
};

inline KeyFlags collect(const LaneFlags& flags) {
  KeyFlags out;
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    out.unstable |= Simd::bits(flags.unstable[v]) << (v * Simd::kWidth);
    out.changed |= Simd::bits(flags.changed[v]) << (v * Simd::kWidth);
  }
  return out;
}

// The square of the length up to which a pair (or, with nothing for the second, a channel that is
// not rotated) is sure to keep its symbols; see KeyFlags. Below any square where there is none.
inline float sure_square(float first_step, float second_step) {
  const float least = first_step < second_step ? first_step : second_step;
  const float moved = (kMovesMax + 0.5F) * (first_step + second_step);
  const float fine = (0.45F * least - 0x1p-23F) * 2030.0F;
  const float length = (fine < 60000.0F ? fine : 60000.0F) - moved;
  return length > 0 ? length * length : -1.0F;
}

inline Simd::Float square_of(const Pair& pair) {
  return Simd::add(Simd::mul(pair.first, pair.first), Simd::mul(pair.second, pair.second));
}

// Two rows of K and their angles.
struct PairPlaces {
  const std::byte* first;
  const std::byte* second;
  const float* cosines;
  const float* sines;
};
inline Pair load_pair(const PairPlaces& places, std::size_t lane) {
  return {Simd::load(places.first + 2 * lane), Simd::load(places.second + 2 * lane)};
}

template <bool kChecked>
inline void quantise_pair(const KeyTile& tile, const PairRows& rows, const PairPlaces& places,
                          std::int16_t* symbols, LaneFlags& flags) {
  const Channel a = channel_of(tile, rows.first);
  const Channel b = channel_of(tile, rows.second);
  const int most = tile.symbol_max;
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    const std::size_t lane = std::size_t{v} * Simd::kWidth;
    const Simd::Float cosine = Simd::load_floats(places.cosines + lane);
    const Simd::Float sine = Simd::load_floats(places.sines + lane);
    const Pair k = load_pair(places, lane);
    const Pair u = rotate_back(k, cosine, sine);
    const Simd::Float scaled_a = scaled(a, u.first);
    const Simd::Float scaled_b = scaled(b, u.second);
    const Simd::Int code_a = Simd::round(scaled_a);
    const Simd::Int code_b = Simd::round(scaled_b);
    Simd::flag_outside(flags.unstable[v], scaled_a, code_a, most);
    Simd::flag_outside(flags.unstable[v], scaled_b, code_b, most);
    if constexpr (kChecked) {
      const Pair turned = rotate({value_of(a, code_a), value_of(b, code_b)}, cosine, sine);
      const Pair decoded{Simd::through_half(turned.first), Simd::through_half(turned.second)};
      Simd::flag_difference(flags.changed[v], k.first, decoded.first);
      Simd::flag_difference(flags.changed[v], k.second, decoded.second);
      const Pair again = rotate_back(decoded, cosine, sine);
      Simd::flag_change(flags.unstable[v], code_a, Simd::round(scaled(a, again.first)));
      Simd::flag_change(flags.unstable[v], code_b, Simd::round(scaled(b, again.second)));
    }
    Simd::symbols_store(symbols + rows.first * kRowValues + lane, code_a);
    Simd::symbols_store(symbols + rows.second * kRowValues + lane, code_b);
  }
}

template <bool kChecked>
inline void quantise_still(const KeyTile& tile, std::uint32_t dim, const std::byte* row,
                           std::int16_t* symbols, LaneFlags& flags) {
  const Channel a = channel_of(tile, dim);
  const int most = tile.symbol_max;
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    const std::size_t lane = std::size_t{v} * Simd::kWidth;
    const Simd::Float k = Simd::load(row + 2 * lane);
    const Simd::Float scaled_k = scaled(a, k);
    const Simd::Int code = Simd::round(scaled_k);
    Simd::flag_outside(flags.unstable[v], scaled_k, code, most);
    if constexpr (kChecked) {
      const Simd::Float decoded = Simd::through_half(value_of(a, code));
      Simd::flag_difference(flags.changed[v], k, decoded);
      Simd::flag_change(flags.unstable[v], code, Simd::round(scaled(a, decoded)));
    }
    Simd::symbols_store(symbols + dim * kRowValues + lane, code);
  }
}

inline bool sure_pair(const KeyTile& tile, const PairRows& rows, const PairPlaces& places) {
  const Simd::Float limit = Simd::set1(sure_square(tile.step[rows.first], tile.step[rows.second]));
  Simd::Flags beyond{};
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    Simd::flag_beyond(beyond, square_of(load_pair(places, std::size_t{v} * Simd::kWidth)), limit);
  }
  return Simd::bits(beyond) == 0;
}

inline bool sure_still(const KeyTile& tile, std::uint32_t dim, const std::byte* row) {
  const Simd::Float limit = Simd::set1(sure_square(tile.step[dim], tile.step[dim]));
  Simd::Flags beyond{};
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    const Simd::Float k = Simd::load(row + v * kVectorBytes);
    Simd::flag_beyond(beyond, Simd::mul(k, k), limit);
  }
  return Simd::bits(beyond) == 0;
}

inline KeyFlags quantise_keys(const KeyTile& tile, const std::byte* values, std::int16_t* symbols) {
  LaneFlags flags;
  std::uint32_t unsure = 0;
  for (std::uint32_t pair = 0; pair < tile.rotated / 2; ++pair) {
    const PairRows rows = pair_rows(tile, pair);
    const PairPlaces places{values + rows.first * kRowBytes, values + rows.second * kRowBytes,
                            tile.cosines + pair * kRowValues, tile.sines + pair * kRowValues};
    if (!tile.compare && sure_pair(tile, rows, places)) {
      quantise_pair<false>(tile, rows, places, symbols, flags);
    } else {
      quantise_pair<true>(tile, rows, places, symbols, flags);
      unsure = 1;
    }
  }
  for (std::uint32_t dim = tile.rotated; dim < tile.dims; ++dim) {
    const std::byte* const row = values + dim * kRowBytes;
    if (!tile.compare && sure_still(tile, dim, row)) {
      quantise_still<false>(tile, dim, row, symbols, flags);
    } else {
      quantise_still<true>(tile, dim, row, symbols, flags);
      unsure = 1;
    }
  }
  KeyFlags found = collect(flags);
  found.unsure = unsure;
  return found;
}

template <bool kStreaming>
inline void put(std::byte* to, Simd::Float value) {
  if constexpr (kStreaming) {
    Simd::stream(to, value);
  } else {
    Simd::store(to, value);
  }
}

template <bool kStreaming>
inline void dequantise_keys_as(const KeyTile& tile, const std::int16_t* symbols,
                               std::byte* values) {
  for (std::uint32_t pair = 0; pair < tile.rotated / 2; ++pair) {
    const PairRows rows = pair_rows(tile, pair);
    const Channel a = channel_of(tile, rows.first);
    const Channel b = channel_of(tile, rows.second);
    const float* const cosines = tile.cosines + pair * kRowValues;
    const float* const sines = tile.sines + pair * kRowValues;
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      const std::size_t lane = std::size_t{v} * Simd::kWidth;
      const Simd::Int code_a = Simd::symbols_load(symbols + rows.first * kRowValues + lane);
      const Simd::Int code_b = Simd::symbols_load(symbols + rows.second * kRowValues + lane);
      const Pair turned =
          rotate({value_of(a, code_a), value_of(b, code_b)}, Simd::load_floats(cosines + lane),
                 Simd::load_floats(sines + lane));
      put<kStreaming>(values + rows.first * kRowBytes + 2 * lane, turned.first);
      put<kStreaming>(values + rows.second * kRowBytes + 2 * lane, turned.second);
    }
  }
  for (std::uint32_t dim = tile.rotated; dim < tile.dims; ++dim) {
    const Channel a = channel_of(tile, dim);
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      const std::size_t lane = std::size_t{v} * Simd::kWidth;
      const Simd::Int code = Simd::symbols_load(symbols + dim * kRowValues + lane);
      put<kStreaming>(values + dim * kRowBytes + 2 * lane, value_of(a, code));
    }
  }
}

inline void dequantise_keys(const KeyTile& tile, const std::int16_t* symbols, std::byte* values,
                            bool streaming) {
  if (streaming) {
    dequantise_keys_as<true>(tile, symbols, values);
  } else {
    dequantise_keys_as<false>(tile, symbols, values);
  }
}

inline Simd::Float decoded_value(Simd::Float mean, Simd::Float step, Simd::Int code,
                                 Simd::Float scale) {
  return Simd::mul(Simd::add(mean, Simd::mul(Simd::to_float(code), step)), scale);
}

struct ValueRow {
  const std::byte* values;
  float scale;
  float inverse;
};

// Whether a symbol of the row is too large, or not the one of what it decodes to.
template <bool kChecked>
inline bool quantise_row(const ValueBlock& block, const ValueRow& row, std::int16_t* symbols) {
  const Simd::Float step = Simd::set1(block.step);
  const Simd::Float per_step = Simd::set1(block.inverse);
  const Simd::Float scale = Simd::set1(row.scale);
  const Simd::Float inverse = Simd::set1(row.inverse);
  const float* const means = block.mean;
  const int most = block.symbol_max;
  Simd::Flags flags{};
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    const Simd::Float mean = Simd::load_floats(means + v * Simd::kWidth);
    const Simd::Float value = Simd::load(row.values + v * kVectorBytes);
    const Simd::Float scaled_value =
        Simd::mul(Simd::sub(Simd::mul(value, inverse), mean), per_step);
    const Simd::Int code = Simd::round(scaled_value);
    Simd::flag_outside(flags, scaled_value, code, most);
    if constexpr (kChecked) {
      const Simd::Float decoded = Simd::through_half(decoded_value(mean, step, code, scale));
      const Simd::Int again =
          Simd::round(Simd::mul(Simd::sub(Simd::mul(decoded, inverse), mean), per_step));
      Simd::flag_change(flags, code, again);
    }
    Simd::symbols_store(symbols + v * Simd::kWidth, code);
  }
  return Simd::bits(flags) != 0;
}

inline void quantise_values(const ValueBlock& block, const float* scales, const float* inverses,
                            const std::byte* values, std::size_t stride, std::uint32_t rows,
                            std::int16_t* symbols, std::uint8_t* unstable) {
  for (std::uint32_t row = 0; row < rows; ++row) {
    const ValueRow of_token{values, scales[row], inverses[row]};
    const bool sure = block.sure && scales[row] >= kSureScaleMin && scales[row] <= kSureScaleMax;
    const bool flagged = sure ? quantise_row<false>(block, of_token, symbols)
                              : quantise_row<true>(block, of_token, symbols);
    if (flagged) unstable[row] |= 1U;
    values += stride;
    symbols += kRowValues;
  }
}

template <bool kStreaming>
inline void dequantise_values_as(const ValueBlock& block, const float* scales,
                                 const std::int16_t* symbols, std::uint32_t rows, std::byte* values,
                                 std::size_t stride) {
  const Simd::Float step = Simd::set1(block.step);
  const float* const means = block.mean;
  for (std::uint32_t row = 0; row < rows; ++row) {
    const Simd::Float scale = Simd::set1(scales[row]);
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      const Simd::Int code = Simd::symbols_load(symbols + v * Simd::kWidth);
      const Simd::Float mean = Simd::load_floats(means + v * Simd::kWidth);
      put<kStreaming>(values + v * kVectorBytes, decoded_value(mean, step, code, scale));
    }
    values += stride;
    symbols += kRowValues;
  }
}

inline void dequantise_values(const ValueBlock& block, const float* scales,
                              const std::int16_t* symbols, std::uint32_t rows, std::byte* values,
                              std::size_t stride, bool streaming) {
  if (streaming) {
    dequantise_values_as<true>(block, scales, symbols, rows, values, stride);
  } else {
    dequantise_values_as<false>(block, scales, symbols, rows, values, stride);
  }
}

inline std::uint32_t find_scale(const ValueBlock& block, const float* scales, const float* inverses,
                                std::uint32_t count, const std::byte* row) {
  const Simd::Float step = Simd::set1(block.step);
  const Simd::Float per_step = Simd::set1(block.inverse);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Simd::Float scale = Simd::set1(scales[i]);
    const Simd::Float inverse = Simd::set1(inverses[i]);
    bool same = true;
    for (std::uint32_t v = 0; v < kVectors && same; ++v) {
      const Simd::Float mean = Simd::load_floats(block.mean + v * Simd::kWidth);
      const Simd::Float value = Simd::load(row + v * kVectorBytes);
      const Simd::Int code =
          Simd::round(Simd::mul(Simd::sub(Simd::mul(value, inverse), mean), per_step));
      const Simd::Float decoded = Simd::through_half(decoded_value(mean, step, code, scale));
      Simd::Flags flags{};
      Simd::flag_difference(flags, value, decoded);
      same = Simd::bits(flags) == 0;
    }
    if (same) return i;
  }
  return count;
}

// sums[row] += the sum of kVectors vectors that `squares` gives for each row.
template <class Squares>
inline void add_sums(std::uint32_t rows, float* sums, const Squares& squares) {
  std::uint32_t row = 0;
  Simd::Float vectors[kVectors];
  for (; row + Simd::kFold <= rows; row += Simd::kFold) {
    Simd::Partial partials[Simd::kFold];
    for (std::uint32_t i = 0; i < Simd::kFold; ++i) {
      squares(row + i, vectors);
      partials[i] = Simd::partial(vectors);
    }
    Simd::add_folded(partials, sums + row);
  }
  for (; row < rows; ++row) {
    squares(row, vectors);
    sums[row] += Simd::sum32(vectors);
  }
}

inline void add_energy(const std::byte* values, std::size_t stride, std::uint32_t rows,
                       float* sums) {
  add_sums(rows, sums, [=](std::uint32_t row, Simd::Float* squares) __attribute__((always_inline)) {
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      const Simd::Float value = Simd::load(values + row * stride + v * kVectorBytes);
      squares[v] = Simd::mul(value, value);
    }
  });
}

inline void add_decoded_energy(const ValueBlock& block, const float* scales,
                               const std::int16_t* symbols, std::uint32_t rows, float* sums) {
  const Simd::Float step = Simd::set1(block.step);
  const float* const means = block.mean;
  add_sums(rows, sums, [=](std::uint32_t row, Simd::Float* squares) __attribute__((always_inline)) {
    const Simd::Float scale = Simd::set1(scales[row]);
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      const Simd::Int code =
          Simd::symbols_load(symbols + std::size_t{row} * kRowValues + v * Simd::kWidth);
      const Simd::Float mean = Simd::load_floats(means + v * Simd::kWidth);
      const Simd::Float value = Simd::through_half(decoded_value(mean, step, code, scale));
      squares[v] = Simd::mul(value, value);
    }
  });
}

inline void turn(const double* base_cosines, const double* base_sines, const double* offset_cosines,
                 const double* offset_sines, std::size_t stride, std::uint32_t pairs,
                 float* cosines, float* sines) {
  using Doubles = double __attribute__((vector_size(Simd::kDoublesBytes)));
  using Floats = float __attribute__((vector_size(Simd::kDoublesBytes / 2)));
  constexpr std::size_t kStep = sizeof(Doubles) / sizeof(double);
  for (std::uint32_t pair = 0; pair < pairs; ++pair) {
    const double base_cosine = base_cosines[pair];
    const double base_sine = base_sines[pair];
    for (std::size_t lane = 0; lane < kRowValues; lane += kStep) {
      Doubles cosine;
      Doubles sine;
      std::memcpy(&cosine, offset_cosines + pair * stride + lane, sizeof cosine);
      std::memcpy(&sine, offset_sines + pair * stride + lane, sizeof sine);
      const Floats turned_cosine =
          __builtin_convertvector(base_cosine * cosine - base_sine * sine, Floats);
      const Floats turned_sine =
          __builtin_convertvector(base_sine * cosine + base_cosine * sine, Floats);
      std::memcpy(cosines + pair * kRowValues + lane, &turned_cosine, sizeof turned_cosine);
      std::memcpy(sines + pair * kRowValues + lane, &turned_sine, sizeof turned_sine);
    }
  }
}
