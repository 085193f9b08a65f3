// The reference for the channel kernels: lanes one by one.
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/channel_kernels.h"
#include "codec/half.h"

namespace mzcache::codec {
namespace {

struct Simd {
  static constexpr std::uint32_t kWidth = 1;
  static constexpr std::size_t kDoublesBytes = 16;  // of a register
  using Float = float;
  using Int = std::int32_t;
  using Flags = std::uint32_t;

  static Float set1(float value) { return value; }
  static Float load(const std::byte* from) { return half_to_float(load_half(from)); }
  static Float load_floats(const float* from) { return *from; }
  static void store(std::byte* to, Float value) { store_half(to, float_to_half(value)); }
  static void stream(std::byte* to, Float value) { store(to, value); }
  static Float add(Float a, Float b) { return a + b; }
  static Float sub(Float a, Float b) { return a - b; }
  static Float mul(Float a, Float b) { return a * b; }
  // Beyond 2^22 only that it is outside counts.
  static Int round(Float value) {
    const auto near =
        static_cast<Int>(std::bit_cast<std::uint32_t>(value + 12582912.0F) - 0x4B400000U);
    return std::fabs(value) < 4194304.0F ? near : std::numeric_limits<Int>::min();
  }
  static Float to_float(Int code) { return static_cast<Float>(code); }
  static Float through_half(Float value) { return half_to_float(float_to_half(value)); }
  static Int symbols_load(const std::int16_t* from) { return *from; }
  static void symbols_store(std::int16_t* to, Int code) {
    *to = static_cast<std::int16_t>(code > 32767 ? 32767 : (code < -32768 ? -32768 : code));
  }
  static void flag_outside(Flags& flags, Float, Int code, int most) {
    flags |= static_cast<Flags>(code > most) | static_cast<Flags>(code < -most);
  }
  static void flag_change(Flags& flags, Int a, Int b) { flags |= static_cast<Flags>(a != b); }
  static void flag_difference(Flags& flags, Float a, Float b) {
    flags |= static_cast<Flags>(!(a == b));
  }
  static void flag_beyond(Flags& flags, Float a, Float limit) {
    flags |= static_cast<Flags>(!(a <= limit));
  }
  static std::uint32_t bits(const Flags& flags) { return flags; }
  static constexpr std::uint32_t kFold = 1;
  using Partial = float;
  static Partial partial(const Float* vectors) { return sum32(vectors); }
  static void add_folded(const Partial* partials, float* sums) { sums[0] += partials[0]; }
  static float sum32(const Float* vectors) {
    float sums[kRowValues];
    std::memcpy(sums, vectors, sizeof sums);
    for (std::uint32_t apart = kRowValues / 2; apart > 0; apart /= 2) {
      for (std::uint32_t i = 0; i < apart; ++i) sums[i] += sums[i + apart];
    }
    return sums[0];
  }
};

#include "codec/channel_simd.inl"

void fence() {}

}  // namespace

const ChannelKernels kChannelScalar{"scalar",
                                    quantise_keys,
                                    dequantise_keys,
                                    quantise_values,
                                    dequantise_values,
                                    find_scale,
                                    add_energy,
                                    add_decoded_energy,
                                    turn,
                                    fence};

}  // namespace mzcache::codec
