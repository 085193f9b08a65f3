#include <cstring>
#include <functional>
#include <utility>

#include "codec/chunk_values.h"
#include "codec/framed_codec.h"
#include "codec/registry.h"
#include "engine/config_codecs.h"
#include "mzcache/codec.h"

namespace mzcache {
namespace {

// An application's codec behind the library's frame. Chunks are handed over row by row, whatever
// their layout.
class ApplicationCodec final : public codec::FramedCodec {
 public:
  ApplicationCodec(const std::string& name, std::shared_ptr<const Codec> codec)
      : FramedCodec(name, id_of(name), codec->version()), codec_(std::move(codec)) {}

  [[nodiscard]] bool lossless() const noexcept override { return codec_->lossless(); }

 protected:
  [[nodiscard]] std::uint64_t work_bytes(
      const actors::ChunkLayout& layout) const noexcept override {
    return layout.bytes();
  }

  [[nodiscard]] std::optional<std::uint64_t> encode_payload(
      const actors::ChunkView& chunk, std::span<std::byte> out,
      std::span<std::byte> work) const override {
    const auto block = block_of<const std::uint16_t>(chunk, work);
    for_each_value(chunk, [&](std::uint64_t in_chunk, std::uint64_t in_rows) {
      std::memcpy(work.data() + in_rows, chunk.bytes.data() + in_chunk, 2);
    });
    try {
      const std::size_t bytes = codec_->encode(block, out);
      if (bytes == 0 || bytes >= out.size()) return std::nullopt;
      return bytes;
    } catch (...) {  // the application's; what it cannot encode stays raw
      return std::nullopt;
    }
  }

  [[nodiscard]] Result<void> decode_payload(std::span<const std::byte> payload,
                                            const actors::MutableChunkView& chunk,
                                            std::span<std::byte> work) const override {
    bool decoded = false;
    try {
      decoded = codec_->decode(payload, block_of<std::uint16_t>(chunk, work));
    } catch (...) {  // the application's; as if it had refused
      decoded = false;
    }
    if (!decoded) return bad_payload("payload: damaged");
    for_each_value(chunk, [&](std::uint64_t in_chunk, std::uint64_t in_rows) {
      std::memcpy(chunk.bytes.data() + in_chunk, work.data() + in_rows, 2);
    });
    return {};
  }

 private:
  static codec::CodecId id_of(const std::string& name) {
    const std::size_t hash = std::hash<std::string>{}(name) & 0x7FFFU;
    return static_cast<codec::CodecId>(static_cast<std::size_t>(codec::CodecId::kApplication) |
                                       hash);
  }

  template <class Value, class View>
  static BasicKvBlock<Value> block_of(const View& chunk, std::span<std::byte> work) {
    BasicKvBlock<Value> block;
    block.layer = chunk.layer;
    block.first_position = chunk.first_position;
    block.tokens = chunk.token_count;
    block.kv_heads = chunk.layout->kv_heads;
    block.head_dim = chunk.layout->head_dim;
    const std::size_t count = std::size_t{block.tokens} * block.kv_heads * block.head_dim;
    auto* const rows = reinterpret_cast<Value*>(work.data());
    block.keys = {rows, count};
    block.values = {rows + count, count};
    return block;
  }

  // Byte offsets of every valid value in the chunk, and in rows [K, V][token][channel].
  template <class View, class Visit>
  static void for_each_value(const View& chunk, Visit visit) {
    const actors::ChunkLayout& layout = *chunk.layout;
    const std::uint32_t width = layout.kv_heads * layout.head_dim;
    std::uint64_t row = 0;
    for (const bool values : {false, true}) {
      for (std::uint32_t token = 0; token < chunk.token_count; ++token) {
        for (std::uint32_t channel = 0; channel < width; ++channel, row += 2) {
          visit(2 * (values ? layout.values_per_half() + codec::v_index(layout, token, channel)
                            : codec::k_index(layout, token, channel)),
                row);
        }
      }
    }
  }

  std::shared_ptr<const Codec> codec_;
};

}  // namespace

void add_codec(const std::string& name, CodecMaker maker) {
  const auto factory =
      [name, maker = std::move(maker)](
          std::string_view parameter) -> Result<std::shared_ptr<const actors::KvCodec>> {
    auto made = maker(parameter);
    if (made == nullptr) {
      return Error{ErrorCode::kBadArgument, 0, "codec \"" + name + "\"",
                   "refuses its parameter \"" + std::string(parameter) + "\""};
    }
    return std::shared_ptr<const actors::KvCodec>(
        std::make_shared<ApplicationCodec>(name, std::move(made)));
  };
  if (auto added = codec::register_codec(name, factory); !added) throw Exception(added.error());
  engine::allow_codec_name(name);
}

}  // namespace mzcache
