// How large chunks become: what plans and slots count with until a chunk is encoded.
#pragma once

#include <algorithm>
#include <cstdint>

#include "actors/ports.h"

namespace mzcache::engine {

// Of one codec and one model's chunks. For one thread.
class EncodedSizes {
 public:
  EncodedSizes(const actors::KvCodec& codec, const actors::ChunkLayout& layout)
      : codec_(codec), layout_(layout) {}

  // A full chunk was encoded.
  void learn(std::uint64_t bytes) noexcept {
    most_ = std::max(most_, bytes);
    const double ratio = static_cast<double>(bytes) / static_cast<double>(layout_.bytes());
    ++chunks_;
    ratio_ += (ratio - ratio_) / static_cast<double>(chunks_);
  }
  // Of a full chunk: the running mean, before that what is usual.
  [[nodiscard]] std::uint64_t expected_bytes() const noexcept {
    if (ratio_ <= 0) return codec_.typical_bytes(layout_, layout_.tokens);
    return std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(ratio_ * static_cast<double>(layout_.bytes())));
  }
  // Room for a chunk is cut to what chunks have taken so far, not to the most one could take:
  // several are on their way at once, and what each gives back would be holes. One that does not
  // fit is encoded again.
  [[nodiscard]] std::uint64_t likely_bytes(std::uint32_t tokens) const noexcept {
    std::uint64_t bytes = codec_.typical_bytes(layout_, tokens);
    if (tokens == layout_.tokens) bytes = std::max(bytes, most_);
    return std::min(bytes, bound(tokens));
  }
  [[nodiscard]] std::uint64_t bound(std::uint32_t tokens) const noexcept {
    return codec_.bound(layout_, tokens);
  }

 private:
  const actors::KvCodec& codec_;
  const actors::ChunkLayout layout_;
  double ratio_ = 0;  // running mean of encoded ÷ raw bytes, 0: none yet
  std::uint64_t chunks_ = 0;
  std::uint64_t most_ = 0;
};

}  // namespace mzcache::engine
