// What a fuzzer does with a codec: any bytes go through its decoder. Shared by the libFuzzer
// targets and by the tests, which run it over well-formed chunks and mutations of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "actors/ports.h"

namespace mzcache::codec::test {

// Bytes before the encoded chunk that choose layout, token count, layer and position.
inline constexpr std::size_t kFuzzChoiceBytes = 4;

struct FuzzChoice {
  actors::ChunkLayout layout;
  actors::RopeDescription rope;
  std::uint32_t token_count = 0;
  std::uint32_t layer = 0;
  std::uint32_t first_position = 0;

  template <class Byte>
  [[nodiscard]] actors::BasicChunkView<Byte> view(std::span<Byte> bytes) const {
    return {layer, first_position, token_count, &layout, &rope, bytes};
  }
};

// From kFuzzChoiceBytes bytes.
[[nodiscard]] FuzzChoice fuzz_choice(const std::uint8_t* data);

// Decodes data[4 …]. What is accepted must encode again, and a second cycle must leave the values
// that the first one gave. Aborts else.
void fuzz_codec(const actors::KvCodec& codec, const std::uint8_t* data, std::size_t size);

}  // namespace mzcache::codec::test
