#include "codec/entropy_form.h"

#include <algorithm>
#include <cmath>

#include "codec/rans.h"

namespace mzcache::codec {
namespace {

// An offset and a class in one field: 5 bits of class, the rest the offset.
constexpr int kKeyOffsetMin = -1024;
constexpr int kKeyOffsetMax = 1023;
constexpr int kValueOffsetMin = -4;
constexpr int kValueOffsetMax = 3;
constexpr unsigned kClassBits = 5;
constexpr unsigned kClassMask = (1U << kClassBits) - 1;

struct Moments {
  std::int64_t sum = 0;
  std::int64_t squares = 0;
};

void add(Moments& moments, std::int16_t symbol) {
  moments.sum += symbol;
  moments.squares += std::int32_t{symbol} * symbol;
}

struct Fit {
  std::int16_t offset;
  std::uint8_t table;
};

Fit fit_channel(const Moments& moments, std::uint32_t count, int least, int most) {
  if (count == 0) return {0, 0};
  const double mean = static_cast<double>(moments.sum) / count;
  const double offset = std::clamp(std::round(mean), double(least), double(most));
  // Around the offset, without what rounding to symbols added.
  const double variance =
      static_cast<double>(moments.squares) / count - 2 * mean * offset + offset * offset - 1.0 / 12;
  return {static_cast<std::int16_t>(offset), rans_class(std::sqrt(std::max(variance, 1e-4)))};
}

}  // namespace

std::int16_t key_exponent(double energy, std::uint64_t values, double share) noexcept {
  if (!(energy > 0) || !std::isfinite(energy) || values == 0) return kZeroKeys;
  const double step = share * std::sqrt(energy / static_cast<double>(values));
  return static_cast<std::int16_t>(std::round(8 * std::log2(step)));
}

FreeForm::FreeForm(Arena& arena, const actors::ChunkLayout& layout) {
  const ChunkGeometry geometry(layout, layout.tokens);
  const std::uint64_t padded = std::uint64_t{layout.kv_heads} * geometry.blocks * kRowValues;
  for (auto* per_channel : {&k_mean, &k_step, &k_inverse}) {
    *per_channel = arena.take<float>(geometry.width);
  }
  v_mean = arena.take<float>(padded);
  k_offset = arena.take<std::int16_t>(geometry.width);
  v_offset = arena.take<std::int16_t>(padded);
  k_class = arena.take<std::uint8_t>(geometry.width);
  v_class = arena.take<std::uint8_t>(padded);
}

ChannelPlan FreeForm::plan(std::int16_t exponent, const QuantiserSteps& steps) {
  const bool zero = exponent == kZeroKeys;
  std::fill(k_mean.begin(), k_mean.end(), 0.0F);
  std::fill(v_mean.begin(), v_mean.end(), 0.0F);
  std::fill(k_step.begin(), k_step.end(),
            zero ? 0.0F : static_cast<float>(std::exp2(exponent / 8.0)));
  std::fill(k_inverse.begin(), k_inverse.end(),
            zero ? 0.0F : static_cast<float>(std::exp2(-exponent / 8.0)));
  return {k_mean.data(), k_step.data(), k_inverse.data(), v_mean.data(), steps.t, 1.0F / steps.t};
}

void FreeForm::fit(const ChunkGeometry& geometry, QuantiserWork& work) {
  const std::uint32_t dims = geometry.layout.head_dim;
  const std::uint32_t heads = geometry.layout.kv_heads;
  const auto kept = [&](std::span<const std::uint8_t> raw) {
    return static_cast<std::uint32_t>(
        std::count(raw.begin(), raw.begin() + geometry.token_count, 0));
  };
  const std::uint32_t k_count = kept(work.k_raw);
  const std::uint32_t v_count = kept(work.v_raw);
  for (std::uint32_t channel = 0; channel < geometry.width; ++channel) {
    Moments moments;
    const auto row_of = [&](std::uint32_t tile) {
      return work.k_symbols.data() + (std::size_t{tile} * geometry.width + channel) * kRowValues;
    };
    for (std::uint32_t tile = 0; tile < geometry.tiles; ++tile) {
      for (std::uint32_t lane = 0; lane < kRowValues; ++lane) add(moments, row_of(tile)[lane]);
    }
    const Fit fit = fit_channel(moments, k_count, kKeyOffsetMin, kKeyOffsetMax);
    k_offset[channel] = fit.offset;
    k_class[channel] = fit.table;
    for (std::uint32_t tile = 0; tile < geometry.tiles && fit.offset != 0; ++tile) {
      std::int16_t* const row = row_of(tile);
      for (std::uint32_t lane = 0; lane < kRowValues; ++lane) {
        row[lane] = static_cast<std::int16_t>(row[lane] - fit.offset);
      }
    }
  }
  for (std::uint32_t i = 0; i < heads * geometry.blocks; ++i) {
    std::int16_t* const rows =
        work.v_symbols.data() + std::size_t{i} * geometry.token_count * kRowValues;
    Moments moments[kRowValues];
    for (std::uint32_t token = 0; token < geometry.token_count; ++token) {
      for (std::uint32_t lane = 0; lane < kRowValues; ++lane) {
        add(moments[lane], rows[token * kRowValues + lane]);
      }
    }
    const std::uint32_t first = i % geometry.blocks * kRowValues;
    for (std::uint32_t lane = 0; lane < kRowValues; ++lane) {
      const std::size_t at = std::size_t{i} * kRowValues + lane;
      const Fit fit = first + lane < dims
                          ? fit_channel(moments[lane], v_count, kValueOffsetMin, kValueOffsetMax)
                          : Fit{0, kFlat};
      v_offset[at] = fit.offset;
      v_class[at] = fit.table;
    }
    for (std::uint32_t token = 0; token < geometry.token_count; ++token) {
      std::int16_t* const row = rows + std::size_t{token} * kRowValues;
      for (std::uint32_t lane = 0; lane < kRowValues; ++lane) {
        row[lane] = static_cast<std::int16_t>(row[lane] - v_offset[i * kRowValues + lane]);
      }
    }
  }
}

void FreeForm::write(ByteWriter& out, const ChunkGeometry& geometry) const {
  for (std::uint32_t channel = 0; channel < geometry.width; ++channel) {
    const auto offset = static_cast<unsigned>(k_offset[channel] - kKeyOffsetMin);
    out.put(static_cast<std::uint16_t>(k_class[channel] | offset << kClassBits));
  }
  const std::uint32_t dims = geometry.layout.head_dim;
  for (std::uint32_t channel = 0; channel < geometry.width; ++channel) {
    const std::size_t at =
        std::size_t{channel / dims} * geometry.blocks * kRowValues + channel % dims;
    const auto offset = static_cast<unsigned>(v_offset[at] - kValueOffsetMin);
    out.put(static_cast<std::uint8_t>(v_class[at] | offset << kClassBits));
  }
}

bool FreeForm::read(ByteReader& in, const ChunkGeometry& geometry) {
  std::fill(v_class.begin(), v_class.end(), std::uint8_t{kFlat});
  std::fill(v_offset.begin(), v_offset.end(), std::int16_t{0});
  bool classes_known = true;
  for (std::uint32_t channel = 0; channel < geometry.width; ++channel) {
    const unsigned field = in.get<std::uint16_t>();
    k_class[channel] = static_cast<std::uint8_t>(field & kClassMask);
    k_offset[channel] =
        static_cast<std::int16_t>(static_cast<int>(field >> kClassBits) + kKeyOffsetMin);
    classes_known = classes_known && k_class[channel] < kRansClasses;
  }
  const std::uint32_t dims = geometry.layout.head_dim;
  for (std::uint32_t channel = 0; channel < geometry.width; ++channel) {
    const unsigned field = in.get<std::uint8_t>();
    const std::size_t at =
        std::size_t{channel / dims} * geometry.blocks * kRowValues + channel % dims;
    v_class[at] = static_cast<std::uint8_t>(field & kClassMask);
    v_offset[at] =
        static_cast<std::int16_t>(static_cast<int>(field >> kClassBits) + kValueOffsetMin);
    classes_known = classes_known && v_class[at] < kRansClasses;
  }
  return in.ok() && classes_known;
}

}  // namespace mzcache::codec
