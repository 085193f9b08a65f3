// The reference for every q8 kernel: one value at a time, and the whole definition of a code.
#include <cmath>

#include "codec/half.h"
#include "codec/q8_kernels.h"

namespace mzcache::codec {
namespace {

constexpr int kStepsMax = 8;  // towards the fixed point; two suffice in practice

struct Group {
  float near = 0;
  float step = 0;
  float inverse = 0;
};

Group make_group(float near, float far, float top) noexcept {
  const float range = far - near;
  return {near, range * (1.0F / top), range == 0.0F ? 0.0F : top / range};
}

// Nearest even for 0 … 2^22: what is added leaves no fraction bits. NaN never gets here.
std::uint32_t round_even(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value + 12582912.0F) & 0xFFU;
}

std::uint32_t quantise(const Group& group, float value) noexcept {
  return round_even((value - group.near) * group.inverse);
}

std::uint16_t reconstruct(const Group& group, std::uint32_t code) noexcept {
  return float_to_half(group.near + static_cast<float>(code) * group.step);
}

// One group whose value i lies at values(i) and whose code goes to codes(i).
template <class Values, class Codes>
bool encode_group(std::uint32_t count, Values values, Codes codes, std::byte* near_value,
                  std::byte* far_value, float top) noexcept {
  float low = half_to_float(load_half(values(0)));
  float high = low;
  for (std::uint32_t i = 0; i < count; ++i) {
    const float value = half_to_float(load_half(values(i)));
    if (!std::isfinite(value)) return false;
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  const bool from_high = std::fabs(high) < std::fabs(low);
  // Adding zero makes -0 and 0 one parameter.
  const float near = (from_high ? high : low) + 0.0F;
  const float far = (from_high ? low : high) + 0.0F;
  store_half(near_value, float_to_half(near));
  store_half(far_value, float_to_half(far));
  const Group group = make_group(near, far, top);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t code = quantise(group, half_to_float(load_half(values(i))));
    int steps = 0;
    for (; steps < kStepsMax; ++steps) {
      const std::uint32_t again = quantise(group, half_to_float(reconstruct(group, code)));
      if (again == code) break;
      code = again;
    }
    if (steps == kStepsMax) return false;
    *codes(i) = static_cast<std::byte>(code);
  }
  return true;
}

bool encode_lanes(const std::byte* values, std::uint32_t rows, std::byte* near_values,
                  std::byte* far_values, std::byte* codes, float top) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const bool ok = encode_group(
        rows, [=](std::uint32_t row) { return values + 2 * (std::size_t{row} * kLanes + lane); },
        [=](std::uint32_t row) { return codes + (std::size_t{row} * kLanes + lane); },
        near_values + 2 * lane, far_values + 2 * lane, top);
    if (!ok) return false;
  }
  return true;
}

void decode_lanes(const std::byte* codes, std::uint32_t rows, const std::byte* near_values,
                  const std::byte* far_values, std::byte* out, bool, float top) {
  Group groups[kLanes];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    groups[lane] = make_group(half_to_float(load_half(near_values + 2 * lane)),
                              half_to_float(load_half(far_values + 2 * lane)), top);
  }
  for (std::size_t i = 0; i < std::size_t{rows} * kLanes; ++i) {
    store_half(out + 2 * i, reconstruct(groups[i % kLanes], static_cast<std::uint32_t>(codes[i])));
  }
}

bool encode_rows(const std::byte* left, const std::byte* right, std::size_t stride,
                 std::uint32_t tokens, std::byte* near_values, std::byte* far_values,
                 std::byte* codes, float top) {
  for (std::uint32_t token = 0; token < tokens; ++token) {
    const std::byte* const left_row = left + token * stride;
    const std::byte* const right_row = right + token * stride;
    std::byte* const row_codes = codes + std::size_t{token} * kGroupValues;
    const bool ok = encode_group(
        kGroupValues,
        [=](std::uint32_t i) {
          return i < kLanes ? left_row + 2 * i : right_row + 2 * (i - kLanes);
        },
        [=](std::uint32_t i) { return row_codes + i; }, near_values + 2 * std::size_t{token},
        far_values + 2 * std::size_t{token}, top);
    if (!ok) return false;
  }
  return true;
}

void decode_rows(const std::byte* codes, std::uint32_t tokens, const std::byte* near_values,
                 const std::byte* far_values, std::byte* left, std::byte* right, std::size_t stride,
                 bool, float top) {
  for (std::uint32_t token = 0; token < tokens; ++token) {
    const Group group =
        make_group(half_to_float(load_half(near_values + 2 * std::size_t{token})),
                   half_to_float(load_half(far_values + 2 * std::size_t{token})), top);
    const std::byte* const row = codes + std::size_t{token} * kGroupValues;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      store_half(left + token * stride + 2 * i,
                 reconstruct(group, static_cast<std::uint32_t>(row[i])));
      store_half(right + token * stride + 2 * i,
                 reconstruct(group, static_cast<std::uint32_t>(row[kLanes + i])));
    }
  }
}

void fence() {}

}  // namespace

const Q8Kernels kQ8Scalar{"scalar", encode_lanes, decode_lanes, encode_rows, decode_rows, fence};

}  // namespace mzcache::codec
