// The codecs of the two places that chunks leave to. A chunk decodes with the codec that encoded
// it, so whoever keeps an encoded form keeps its tier.
#pragma once

#include <cstdint>

#include "actors/ports.h"

namespace mzcache::actors {

// Whose codec a form is made by. What moves from the in-memory swap to the file stays kMemory's.
enum class CodecTier : std::uint8_t { kMemory, kStorage };

struct TierCodecs {
  const KvCodec* memory = nullptr;   // never null
  const KvCodec* storage = nullptr;  // null: chunks are stored as they lie in their shared buffers

  // kStorage: only where there is one.
  [[nodiscard]] const KvCodec& of(CodecTier tier) const noexcept {
    return tier == CodecTier::kStorage ? *storage : *memory;
  }
};

}  // namespace mzcache::actors
