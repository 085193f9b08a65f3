// What `entropy` needs of a layer to code it, from the profile or from the chunk itself.
#pragma once

#include "codec/byte_stream.h"
#include "codec/channel_plan.h"

namespace mzcache::codec {

// K's step without a profile is 2^(exponent/8), close to a share of the rms of K.
inline constexpr std::int16_t kZeroKeys = -32768;
[[nodiscard]] std::int16_t key_exponent(double energy, std::uint64_t values, double share) noexcept;

// Arrays for a plan without a profile, and for what the symbols of its channels are like.
struct FreeForm {
  // Counts where the arena does.
  FreeForm(Arena& arena, const actors::ChunkLayout& layout);
  // K's steps for all channels alike, means 0.
  [[nodiscard]] ChannelPlan plan(std::int16_t exponent, const QuantiserSteps& steps);
  // Offsets and classes that fit the symbols; the offsets are subtracted.
  void fit(const ChunkGeometry& geometry, QuantiserWork& work);
  void write(ByteWriter& out, const ChunkGeometry& geometry) const;
  // False where it is damaged.
  [[nodiscard]] bool read(ByteReader& in, const ChunkGeometry& geometry);

  std::span<float> k_mean, k_step, k_inverse, v_mean;
  std::span<std::int16_t> k_offset;  // per channel
  std::span<std::int16_t> v_offset;  // [head][block][lane]
  std::span<std::uint8_t> k_class, v_class;
};

}  // namespace mzcache::codec
