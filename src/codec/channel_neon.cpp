// The channel kernels with NEON (AArch64).
#include <arm_neon.h>

#include <cstring>

#include "codec/channel_kernels.h"

namespace mzcache::codec {
namespace {

struct Simd {
  static constexpr std::uint32_t kWidth = 4;
  static constexpr std::size_t kDoublesBytes = 16;  // of a register
  using Float = float32x4_t;
  using Int = int32x4_t;
  struct Flags {
    uint32x4_t bits = vdupq_n_u32(0);
  };

  static Float set1(float value) { return vdupq_n_f32(value); }
  static Float load(const std::byte* from) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(reinterpret_cast<const std::uint8_t*>(from))));
  }
  static Float load_floats(const float* from) { return vld1q_f32(from); }
  static void store(std::byte* to, Float value) {
    vst1_u8(reinterpret_cast<std::uint8_t*>(to), vreinterpret_u8_f16(vcvt_f16_f32(value)));
  }
  static void stream(std::byte* to, Float value) { store(to, value); }
  static Float add(Float a, Float b) { return vaddq_f32(a, b); }
  static Float sub(Float a, Float b) { return vsubq_f32(a, b); }
  static Float mul(Float a, Float b) { return vmulq_f32(a, b); }
  static Int round(Float value) { return vcvtnq_s32_f32(value); }
  static Float to_float(Int code) { return vcvtq_f32_s32(code); }
  static Float through_half(Float value) { return vcvt_f32_f16(vcvt_f16_f32(value)); }
  static Int symbols_load(const std::int16_t* from) { return vmovl_s16(vld1_s16(from)); }
  static void symbols_store(std::int16_t* to, Int code) { vst1_s16(to, vqmovn_s32(code)); }
  // NaN converts to 0 here, so it is looked for in the scaled value.
  static void flag_outside(Flags& flags, Float scaled, Int code, int most) {
    const uint32x4_t high = vcgtq_s32(code, vdupq_n_s32(most));
    const uint32x4_t low = vcltq_s32(code, vdupq_n_s32(-most));
    const uint32x4_t nan = vmvnq_u32(vceqq_f32(scaled, scaled));
    flags.bits = vorrq_u32(flags.bits, vorrq_u32(nan, vorrq_u32(high, low)));
  }
  static void flag_change(Flags& flags, Int a, Int b) {
    flags.bits = vorrq_u32(flags.bits, vmvnq_u32(vceqq_s32(a, b)));
  }
  static void flag_difference(Flags& flags, Float a, Float b) {
    flags.bits = vorrq_u32(flags.bits, vmvnq_u32(vceqq_f32(a, b)));
  }
  static void flag_beyond(Flags& flags, Float a, Float limit) {
    flags.bits = vorrq_u32(flags.bits, vmvnq_u32(vcleq_f32(a, limit)));
  }
  static std::uint32_t bits(const Flags& flags) {
    const std::uint32_t places[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(flags.bits, vld1q_u32(places)));
  }
  static constexpr std::uint32_t kFold = 1;
  using Partial = float;
  static Partial partial(const Float* vectors) { return sum32(vectors); }
  static void add_folded(const Partial* partials, float* sums) { sums[0] += partials[0]; }
  static float sum32(const Float* v) {
    const Float four =
        add(add(add(v[0], v[4]), add(v[2], v[6])), add(add(v[1], v[5]), add(v[3], v[7])));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }
};

#include "codec/channel_simd.inl"

void fence() {}

}  // namespace

const ChannelKernels kChannelNeon{"neon",
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
