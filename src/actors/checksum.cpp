#include "actors/checksum.h"

#include <xxhash.h>

namespace mzcache::actors {

std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace mzcache::actors
