// Memory of the forward pass itself: activations, partial results, tables. Not units: it is never
// evicted, but sized by the slice under way and given back when slices get smaller.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "actors/model_description.h"
#include "gpu/device.h"
#include "gpu/layer_recipe.h"
#include "gpu/unit_memory_pages.h"

namespace mzcache::gpu {

// One device buffer. Where the device is the host's processor it lies in pages of our own, which
// return to the system when it shrinks and which the host reads and writes directly. Resized only
// while no kernel uses it; not thread-safe.
class ScratchBuffer {
 public:
  // Holds at least `bytes` afterwards, and not much more; contents are lost when it is resized.
  [[nodiscard]] Result<void> resize(const Device& device, std::uint64_t bytes);
  // Copies to the device. Without host() the copy is enqueued: `data` must stay until it ran.
  [[nodiscard]] Result<void> upload(const Device& device, std::uint64_t offset,
                                    std::span<const std::byte> data);

  [[nodiscard]] cl_mem memory() const noexcept { return buffer_(); }
  [[nodiscard]] std::byte* host() const noexcept { return pages_.data(); }  // may be null
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  PageReservation pages_;  // outlives buffer_, which lies in it
  cl::Buffer buffer_;
  std::uint64_t bytes_ = 0;
};

// What the sizes of a slice's scratch follow from.
struct SliceShape {
  std::uint32_t tokens = 0;
  std::uint32_t logit_rows = 0;
  std::uint32_t attention_ranges = 1;
  std::uint64_t packed_bytes = 0;
};

// From this many tokens on the matrix products run with tokens as lanes, over packed activations.
inline constexpr std::uint32_t kPackedTokensMin = 17;

struct SliceScratch {
  std::array<ScratchBuffer, static_cast<std::size_t>(Slot::kCount)> slots;
  ScratchBuffer packed;           // activations in the order of the product under way
  ScratchBuffer partial;          // attention: [range][token][head][head_dim]
  ScratchBuffer partial_weights;  // [range][token][head] pairs
  ScratchBuffer embedding_rows;   // raw, in the file's type
  ScratchBuffer logit_rows;       // offsets within the slice
  ScratchBuffer angles;           // [token][pair] (cos, sin)
  ScratchBuffer windowed_angles;  // the same for layers with a window, where theirs are others
  ScratchBuffer logits;           // [row][vocabulary]

  [[nodiscard]] ScratchBuffer& operator[](Slot slot) {
    return slots[static_cast<std::size_t>(slot)];
  }
  [[nodiscard]] Result<void> resize(const Device& device, const actors::ModelDescription& model,
                                    const SliceShape& shape);
  [[nodiscard]] std::uint64_t bytes() const noexcept;
};

}  // namespace mzcache::gpu
