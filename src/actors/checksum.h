// The checksum every chunk carries while it is away from its shared buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mzcache::actors {

// XXH3-64 (seed 0) of the bytes. Thread-safe.
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes) noexcept;

}  // namespace mzcache::actors
