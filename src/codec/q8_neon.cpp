// q8 with NEON (AArch64: FP16 conversions and rounding to nearest even are in the base set).
#include <arm_neon.h>

#include <cstring>

#include "codec/q8_kernels.h"

namespace mzcache::codec {
namespace {

struct Simd {
  static constexpr std::uint32_t kWidth = 4;
  using Float = float32x4_t;
  using Int = int32x4_t;
  struct Flags {
    uint32x4_t bits = vdupq_n_u32(0);
  };

  static Float set1(float value) { return vdupq_n_f32(value); }
  static Float load(const std::byte* from) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(reinterpret_cast<const std::uint8_t*>(from))));
  }
  static Float load_one(const std::byte* from) {
    std::uint16_t half = 0;
    std::memcpy(&half, from, sizeof half);
    return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half)));
  }
  static void store(std::byte* to, Float value) {
    vst1_u8(reinterpret_cast<std::uint8_t*>(to), vreinterpret_u8_f16(vcvt_f16_f32(value)));
  }
  static void stream(std::byte* to, Float value) { store(to, value); }
  static void store_one(std::byte* to, Float value) {
    const std::uint16_t half = vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(value)), 0);
    std::memcpy(to, &half, sizeof half);
  }
  static Float add(Float a, Float b) { return vaddq_f32(a, b); }
  static Float sub(Float a, Float b) { return vsubq_f32(a, b); }
  static Float mul(Float a, Float b) { return vmulq_f32(a, b); }
  static Float min(Float a, Float b) { return vminq_f32(a, b); }
  static Float max(Float a, Float b) { return vmaxq_f32(a, b); }
  static Float less_magnitude(Float a, Float b, Float if_less, Float otherwise) {
    return vbslq_f32(vcltq_f32(vabsq_f32(a), vabsq_f32(b)), if_less, otherwise);
  }
  static Float inverse(float top, Float range) {
    const uint32x4_t zero = vceqzq_f32(range);
    const uint32x4_t inverse = vreinterpretq_u32_f32(vdivq_f32(set1(top), range));
    return vreinterpretq_f32_u32(vbicq_u32(inverse, zero));
  }
  static Float reduce_min(Float a) { return set1(vminvq_f32(a)); }
  static Float reduce_max(Float a) { return set1(vmaxvq_f32(a)); }
  static Int round(Float value) { return vcvtnq_s32_f32(value); }
  static Float to_float(Int code) { return vcvtq_f32_s32(code); }
  static Float through_half(Float value) { return vcvt_f32_f16(vcvt_f16_f32(value)); }
  static Float codes_load(const std::byte* from) {
    std::uint32_t four = 0;
    std::memcpy(&four, from, sizeof four);
    const uint16x8_t words = vmovl_u8(vcreate_u8(four));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(words)));
  }
  static void codes_store(std::byte* to, Int code) {
    const uint16x4_t words = vqmovun_s32(code);
    const std::uint32_t four =
        vget_lane_u32(vreinterpret_u32_u8(vqmovn_u16(vcombine_u16(words, words))), 0);
    std::memcpy(to, &four, sizeof four);
  }
  static void codes_store_row(std::byte* to, const Int* codes) {
    for (std::uint32_t i = 0; i < kLanes; i += kWidth) codes_store(to + i, codes[i / kWidth]);
  }
  static bool all_wide(Float range, Float far) {
    const Float least = max(mul(vabsq_f32(far), set1(0.5F)), set1(0x1p-13F));
    return vminvq_u32(vcgeq_f32(vabsq_f32(range), least)) != 0;
  }
  // NaN converts to 0 here, so it is looked for in the scaled value; Inf leaves the code's bits.
  static void flag(Flags& flags, Float scaled, Int code) {
    const uint32x4_t high = vbicq_u32(vreinterpretq_u32_s32(code), vdupq_n_u32(0xFF));
    const uint32x4_t nan = vmvnq_u32(vceqq_f32(scaled, scaled));
    flags.bits = vorrq_u32(flags.bits, vorrq_u32(nan, high));
  }
  static void flag_change(Flags& flags, Int code, Int again) {
    flags.bits = vorrq_u32(flags.bits, vreinterpretq_u32_s32(veorq_s32(code, again)));
  }
  static bool flagged(const Flags& flags) { return vmaxvq_u32(flags.bits) != 0; }
};

#include "codec/q8_simd.inl"

void fence() {}

}  // namespace

const Q8Kernels kQ8Neon{"neon", encode_lanes, decode_lanes, encode_rows, decode_rows, fence};

}  // namespace mzcache::codec
