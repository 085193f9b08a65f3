// The symbols of a chunk as two rANS streams, of K and of V, with the escapes beside them. Rows are
// those of channel_quantiser.h. Each channel has a table class and an offset that is subtracted.
//
// In a payload: i16 escapes of K, of V; u32 rANS states of K, of V; u16 words of K, of V.
#pragma once

#include "codec/arena.h"
#include "codec/byte_stream.h"
#include "codec/channel_quantiser.h"
#include "codec/rans.h"

namespace mzcache::codec {

struct SymbolTables {
  const std::uint8_t* k_class = nullptr;   // per channel
  const std::uint8_t* v_class = nullptr;   // [head][block][lane]
  const std::int16_t* k_offset = nullptr;  // the same; null: none
  const std::int16_t* v_offset = nullptr;
};

struct StreamSizes {
  std::uint32_t escapes[2] = {};
  std::uint32_t words[2] = {};
};

struct StreamWork {
  // Counts where the arena does.
  StreamWork(Arena& arena, const actors::ChunkLayout& layout);
  // What a decoder may look at behind a stream.
  [[nodiscard]] static std::uint64_t slack_bytes(const actors::ChunkLayout& layout);

  std::span<std::byte> words;
  std::span<std::int16_t> escapes;
};

class SymbolWriter {
 public:
  SymbolWriter(const RansKernels& rans, const ChunkGeometry& geometry, const SymbolTables& tables,
               StreamWork& work)
      : rans_(rans), geometry_(geometry), tables_(tables), work_(work) {}

  // Offsets are subtracted already. Symbols beyond their tables become kEscape in place. False
  // where the streams are larger than the chunk.
  [[nodiscard]] bool encode(std::int16_t* k_symbols, std::int16_t* v_symbols);
  [[nodiscard]] const StreamSizes& sizes() const noexcept { return sizes_; }
  void write(ByteWriter& out) const;

 private:
  void take_escapes(std::int16_t* k_symbols, std::int16_t* v_symbols);

  const RansKernels& rans_;
  const ChunkGeometry& geometry_;
  const SymbolTables& tables_;
  StreamWork& work_;
  StreamSizes sizes_;
  RansEncoder encoders_[2] = {};
};

class SymbolReader {
 public:
  SymbolReader(const RansKernels& rans, const SymbolTables& tables)
      : rans_(rans), tables_(tables) {}

  // Takes the rest of the payload. False where it does not fit the sizes.
  [[nodiscard]] bool open(ByteReader& in, const StreamSizes& sizes,
                          const actors::ChunkLayout& layout, StreamWork& work);
  // The next rows of K: one head of a tile; at most head_dim of them.
  [[nodiscard]] bool keys(std::size_t first_channel, std::uint32_t rows, std::int16_t* symbols);
  // The next rows of V, of the block that begins at this lane; at most kValueRowsMax.
  static constexpr std::uint32_t kValueRowsMax = 64;
  [[nodiscard]] bool values(std::size_t first_lane, std::uint32_t rows, std::int16_t* symbols);
  // Whether both streams ended where they should.
  [[nodiscard]] bool finished() const;

 private:
  struct Stream {
    RansDecoder decoder = {};
    const std::byte* end = nullptr;
    const std::int16_t* escapes = nullptr;
    const std::int16_t* escapes_end = nullptr;
    [[nodiscard]] bool fill(std::int16_t* symbols, std::size_t count);
    [[nodiscard]] bool finished() const;
  };

  const RansKernels& rans_;
  const SymbolTables& tables_;
  Stream streams_[2];
};

}  // namespace mzcache::codec
