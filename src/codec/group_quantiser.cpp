#include "codec/group_quantiser.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "codec/chunk_values.h"
#include "codec/half.h"

namespace mzcache::codec {
namespace {

using actors::ChunkLayout;

constexpr std::uint32_t kNone = ~std::uint32_t{0};

// Where the parts of a quantised payload lie, and how a half (K or V) is cut into groups.
struct Shape {
  const ChunkLayout& layout;
  std::uint32_t tokens;  // valid
  float top;             // the largest code
  std::uint64_t width = std::uint64_t{layout.kv_heads} * layout.head_dim;
  std::uint64_t groups = (width + kGroupValues - 1) / kGroupValues;
  std::uint64_t parameter_bytes = 2 * groups * 2 * tokens * 2;

  // Offset of the near values of a group; its far values follow them.
  [[nodiscard]] std::uint64_t parameters(unsigned half, std::uint64_t group) const {
    return (half * groups + group) * 4 * tokens;
  }
  [[nodiscard]] std::uint64_t codes(unsigned half, std::uint64_t group) const {
    return parameter_bytes + (half * width + group * kGroupValues) * tokens;
  }
  [[nodiscard]] std::uint32_t values(std::uint64_t group) const {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(kGroupValues, width - group * kGroupValues));
  }
  [[nodiscard]] bool tiled() const { return layout.order == ChunkLayout::Order::kTiled; }
  [[nodiscard]] std::uint64_t index(unsigned half, std::uint32_t token,
                                    std::uint64_t channel) const {
    const auto c = static_cast<std::uint32_t>(channel);
    return half == 0 ? k_index(layout, token, c) : v_index(layout, token, c);
  }
  // Whether 32 channels from `channel` on are neighbours in every token's row of V.
  [[nodiscard]] bool whole_block(std::uint64_t channel) const {
    const std::uint64_t dim = channel % layout.head_dim;
    return dim % kLanes == 0 && dim + kLanes <= layout.head_dim;
  }
  // Whether encode_rows can work on the group in place.
  [[nodiscard]] bool rows_in_place(std::uint64_t group) const {
    const std::uint64_t first = group * kGroupValues;
    if (values(group) != kGroupValues) return false;
    return !tiled() || (whole_block(first) && whole_block(first + kLanes));
  }
  [[nodiscard]] std::size_t row_stride() const {
    return tiled() ? std::size_t{2} * kLanes : static_cast<std::size_t>(2 * width);
  }
  // Whether a tile's rows of the group are neighbours in K: the group stays within one head.
  [[nodiscard]] bool lanes_in_place(std::uint64_t group) const {
    const std::uint64_t first = group * kGroupValues;
    return first / layout.head_dim == (first + values(group) - 1) / layout.head_dim;
  }
};

// A tile of K (or one token of V) that the kernels cannot take in place is staged here.
struct Stage {
  alignas(64) std::byte values[std::size_t{2} * kGroupValues * kLanes];
  alignas(64) std::byte codes[std::size_t{kGroupValues} * kLanes];
  alignas(64) std::byte near_values[std::size_t{2} * kLanes];
  alignas(64) std::byte far_values[std::size_t{2} * kLanes];
};

class Encoder {
 public:
  Encoder(const Q8Kernels& kernels, const Shape& shape, const std::byte* chunk, std::byte* grouped)
      : kernels_(kernels), shape_(shape), chunk_(chunk), grouped_(grouped) {}

  // False where the chunk must be kept raw.
  bool run() {
    for (unsigned half = 0; half < 2; ++half) {
      for (std::uint64_t group = 0; group < shape_.groups; ++group) {
        const bool ok = half == 0 && shape_.tiled() ? tiled_k(group) : rows(half, group);
        if (!ok) return false;
      }
    }
    return true;
  }

 private:
  [[nodiscard]] const std::byte* at(unsigned half, std::uint32_t token,
                                    std::uint64_t channel) const {
    return chunk_ +
           2 * (half * shape_.layout.values_per_half() + shape_.index(half, token, channel));
  }

  bool lanes(const std::byte* values, std::uint32_t rows, std::byte* near_values,
             std::byte* far_values, std::byte* codes) const {
    return kernels_.encode_lanes(values, rows, near_values, far_values, codes, shape_.top) ||
           kQ8Scalar.encode_lanes(values, rows, near_values, far_values, codes, shape_.top);
  }

  bool tiled_k(std::uint64_t group) {
    const std::uint32_t count = shape_.values(group);
    std::byte* const near_values = grouped_ + shape_.parameters(0, group);
    std::byte* const far_values = near_values + std::size_t{2} * shape_.tokens;
    std::byte* codes = grouped_ + shape_.codes(0, group);
    for (std::uint32_t token = 0; token < shape_.tokens; token += kLanes) {
      const std::uint32_t wide = std::min(kLanes, shape_.tokens - token);
      std::byte* const near_out = near_values + std::size_t{2} * token;
      std::byte* const far_out = far_values + std::size_t{2} * token;
      if (wide == kLanes && shape_.lanes_in_place(group)) {
        if (!lanes(at(0, token, group * kGroupValues), count, near_out, far_out, codes))
          return false;
      } else if (!staged_tile(group, token, wide, near_out, far_out, codes)) {
        return false;
      }
      codes += std::size_t{count} * wide;
    }
    return true;
  }

  bool staged_tile(std::uint64_t group, std::uint32_t token, std::uint32_t wide,
                   std::byte* near_out, std::byte* far_out, std::byte* codes) {
    const std::uint32_t count = shape_.values(group);
    if (wide < kLanes) std::memset(stage_.values, 0, sizeof stage_.values);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::memcpy(stage_.values + std::size_t{2} * i * kLanes,
                  at(0, token, group * kGroupValues + i), std::size_t{2} * wide);
    }
    if (!lanes(stage_.values, count, stage_.near_values, stage_.far_values, stage_.codes)) {
      return false;
    }
    std::memcpy(near_out, stage_.near_values, std::size_t{2} * wide);
    std::memcpy(far_out, stage_.far_values, std::size_t{2} * wide);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::memcpy(codes + std::size_t{i} * wide, stage_.codes + std::size_t{i} * kLanes, wide);
    }
    return true;
  }

  bool rows(unsigned half, std::uint64_t group) {
    std::byte* const near_values = grouped_ + shape_.parameters(half, group);
    std::byte* const far_values = near_values + std::size_t{2} * shape_.tokens;
    std::byte* const codes = grouped_ + shape_.codes(half, group);
    if (!shape_.rows_in_place(group))
      return staged_rows(half, group, near_values, far_values, codes);
    const std::byte* const left = at(half, 0, group * kGroupValues);
    const std::byte* const right = at(half, 0, group * kGroupValues + kLanes);
    const std::size_t stride = shape_.row_stride();
    return kernels_.encode_rows(left, right, stride, shape_.tokens, near_values, far_values, codes,
                                shape_.top) ||
           kQ8Scalar.encode_rows(left, right, stride, shape_.tokens, near_values, far_values, codes,
                                 shape_.top);
  }

  bool staged_rows(unsigned half, std::uint64_t group, std::byte* near_values,
                   std::byte* far_values, std::byte* codes) {
    const std::uint32_t count = shape_.values(group);
    for (std::uint32_t token = 0; token < shape_.tokens; ++token) {
      for (std::uint32_t i = 0; i < kGroupValues; ++i) {  // what is missing repeats the last value
        std::memcpy(stage_.values + std::size_t{2} * i,
                    at(half, token, group * kGroupValues + std::min(i, count - 1)), 2);
      }
      const std::byte* const right = stage_.values + std::size_t{2} * kLanes;
      std::byte* const near_out = near_values + std::size_t{2} * token;
      std::byte* const far_out = far_values + std::size_t{2} * token;
      if (!kernels_.encode_rows(stage_.values, right, 0, 1, near_out, far_out, stage_.codes,
                                shape_.top) &&
          !kQ8Scalar.encode_rows(stage_.values, right, 0, 1, near_out, far_out, stage_.codes,
                                 shape_.top)) {
        return false;
      }
      std::memcpy(codes + std::size_t{token} * count, stage_.codes, count);
    }
    return true;
  }

  const Q8Kernels& kernels_;
  const Shape& shape_;
  const std::byte* chunk_;
  std::byte* grouped_;
  Stage stage_;
};

class Decoder {
 public:
  Decoder(const Q8Kernels& kernels, const Shape& shape, const std::byte* grouped, std::byte* chunk)
      : kernels_(kernels),
        shape_(shape),
        grouped_(grouped),
        chunk_(chunk),
        // Streaming stores keep the decoder's output out of its caches; they need whole lines.
        streaming_(reinterpret_cast<std::uintptr_t>(chunk) % 64 == 0 && shape.tiled() &&
                   shape.layout.values_per_half() % kLanes == 0) {}

  void run() {
    for (unsigned half = 0; half < 2; ++half) {
      for (std::uint64_t group = 0; group < shape_.groups; ++group) {
        if (half == 0 && shape_.tiled()) {
          tiled_k(group);
        } else {
          rows(half, group);
        }
      }
    }
    if (streaming_) kernels_.fence();
  }

 private:
  [[nodiscard]] std::byte* at(unsigned half, std::uint32_t token, std::uint64_t channel) const {
    return chunk_ +
           2 * (half * shape_.layout.values_per_half() + shape_.index(half, token, channel));
  }

  void tiled_k(std::uint64_t group) {
    const std::uint32_t count = shape_.values(group);
    const std::byte* const near_values = grouped_ + shape_.parameters(0, group);
    const std::byte* const far_values = near_values + std::size_t{2} * shape_.tokens;
    const std::byte* codes = grouped_ + shape_.codes(0, group);
    for (std::uint32_t token = 0; token < shape_.tokens; token += kLanes) {
      const std::uint32_t wide = std::min(kLanes, shape_.tokens - token);
      const std::byte* const near_in = near_values + std::size_t{2} * token;
      const std::byte* const far_in = far_values + std::size_t{2} * token;
      if (wide == kLanes && shape_.lanes_in_place(group)) {
        kernels_.decode_lanes(codes, count, near_in, far_in, at(0, token, group * kGroupValues),
                              streaming_, shape_.top);
      } else {
        staged_tile(group, token, wide, near_in, far_in, codes);
      }
      codes += std::size_t{count} * wide;
    }
  }

  void staged_tile(std::uint64_t group, std::uint32_t token, std::uint32_t wide,
                   const std::byte* near_in, const std::byte* far_in, const std::byte* codes) {
    const std::uint32_t count = shape_.values(group);
    if (wide < kLanes) {
      std::memset(stage_.near_values, 0, sizeof stage_.near_values);
      std::memset(stage_.far_values, 0, sizeof stage_.far_values);
      std::memset(stage_.codes, 0, sizeof stage_.codes);
    }
    std::memcpy(stage_.near_values, near_in, std::size_t{2} * wide);
    std::memcpy(stage_.far_values, far_in, std::size_t{2} * wide);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::memcpy(stage_.codes + std::size_t{i} * kLanes, codes + std::size_t{i} * wide, wide);
    }
    kernels_.decode_lanes(stage_.codes, count, stage_.near_values, stage_.far_values, stage_.values,
                          false, shape_.top);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::memcpy(at(0, token, group * kGroupValues + i),
                  stage_.values + std::size_t{2} * i * kLanes, std::size_t{2} * wide);
    }
  }

  void rows(unsigned half, std::uint64_t group) {
    const std::byte* const near_values = grouped_ + shape_.parameters(half, group);
    const std::byte* const far_values = near_values + std::size_t{2} * shape_.tokens;
    const std::byte* const codes = grouped_ + shape_.codes(half, group);
    if (!shape_.rows_in_place(group)) {
      staged_rows(half, group, near_values, far_values, codes);
      return;
    }
    kernels_.decode_rows(
        codes, shape_.tokens, near_values, far_values, at(half, 0, group * kGroupValues),
        at(half, 0, group * kGroupValues + kLanes), shape_.row_stride(), streaming_, shape_.top);
  }

  void staged_rows(unsigned half, std::uint64_t group, const std::byte* near_values,
                   const std::byte* far_values, const std::byte* codes) {
    const std::uint32_t count = shape_.values(group);
    std::memset(stage_.codes, 0, kGroupValues);
    for (std::uint32_t token = 0; token < shape_.tokens; ++token) {
      std::memcpy(stage_.codes, codes + std::size_t{token} * count, count);
      kernels_.decode_rows(stage_.codes, 1, near_values + std::size_t{2} * token,
                           far_values + std::size_t{2} * token, stage_.values,
                           stage_.values + std::size_t{2} * kLanes, 0, false, shape_.top);
      for (std::uint32_t i = 0; i < count; ++i) {
        std::memcpy(at(half, token, group * kGroupValues + i), stage_.values + std::size_t{2} * i,
                    2);
      }
    }
  }

  const Q8Kernels& kernels_;
  const Shape& shape_;
  const std::byte* grouped_;
  std::byte* chunk_;
  bool streaming_;
  Stage stage_;
};

// The first parameter that is Inf or NaN, which the encoder never writes; kNone where all are fine.
std::uint32_t bad_parameter(const std::byte* parameters, std::uint64_t bytes) noexcept {
  std::uint16_t largest = 0;
  for (std::uint64_t i = 0; i < bytes; i += 2) {
    const auto magnitude = static_cast<std::uint16_t>(load_half(parameters + i) & 0x7FFFU);
    largest = std::max(largest, magnitude);
  }
  if (largest < 0x7C00U) return kNone;
  for (std::uint64_t i = 0; i < bytes; i += 2) {
    if ((load_half(parameters + i) & 0x7FFFU) >= 0x7C00U) return static_cast<std::uint32_t>(i / 2);
  }
  return kNone;
}

}  // namespace

GroupedSize grouped_size(const ChunkLayout& layout, std::uint32_t token_count) noexcept {
  const Shape shape{layout, token_count, 0};
  return {shape.parameter_bytes, 2 * shape.width * token_count};
}

bool encode_groups(const Q8Kernels& kernels, float top, const actors::ChunkView& chunk,
                   std::byte* grouped) noexcept {
  const Shape shape{*chunk.layout, chunk.token_count, top};
  return Encoder(kernels, shape, chunk.bytes.data(), grouped).run();
}

void decode_groups(const Q8Kernels& kernels, float top, const std::byte* grouped,
                   const actors::MutableChunkView& chunk) noexcept {
  const Shape shape{*chunk.layout, chunk.token_count, top};
  Decoder(kernels, shape, grouped, chunk.bytes.data()).run();
}

Result<void> check_parameters(std::string_view codec, const std::byte* grouped,
                              const GroupedSize& size) {
  const std::uint32_t bad = bad_parameter(grouped, size.parameter_bytes);
  if (bad == kNone) return {};
  return Error{ErrorCode::kBadFormat, 0, "decode " + std::string(codec) + " chunk",
               "parameter " + std::to_string(bad) + " is not finite"};
}

}  // namespace mzcache::codec
