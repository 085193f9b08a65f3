// A codec of the application's own for evicted keys and values, chosen by its name in the
// configuration (memory.codec, --codec) like the library's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mzcache {

// Keys and values of one layer for some tokens in a row: FP16 bits, [token][kv_head][head_dim].
template <class Value>
struct BasicKvBlock {
  std::uint32_t layer = 0;
  std::uint32_t first_position = 0;
  std::uint32_t tokens = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::span<Value> keys;    // tokens · kv_heads · head_dim; rotated, as the model stores them
  std::span<Value> values;  // the same
};
using KvBlock = BasicKvBlock<const std::uint16_t>;
using MutableKvBlock = BasicKvBlock<std::uint16_t>;

// Called from several threads at once. Headers, checksums and sizes are the library's business, and
// so are blocks that do not get smaller: they are kept as they are.
class Codec {
 public:
  virtual ~Codec() = default;
  // Part of every encoded chunk: one of another version is not handed to decode().
  [[nodiscard]] virtual std::uint16_t version() const noexcept = 0;
  // True where decoding gives back every bit.
  [[nodiscard]] virtual bool lossless() const noexcept = 0;
  // Bytes written to `out`; 0 where they do not fit, or the block is better kept as it is. A second
  // cycle over what decode() gave should change nothing.
  [[nodiscard]] virtual std::size_t encode(const KvBlock& block,
                                           std::span<std::byte> out) const = 0;
  // Exactly the bytes that encode() wrote, or, where memory or disk failed, anything at all. False
  // where they are damaged.
  [[nodiscard]] virtual bool decode(std::span<const std::byte> bytes,
                                    const MutableKvBlock& block) const = 0;
};

// Makes the codec from what follows the colon in "NAME:parameter" ("" where there is none). Null:
// not a parameter of this codec.
using CodecMaker = std::function<std::shared_ptr<const Codec>(std::string_view parameter)>;

// Before the Config that names it is made. Names are lower-case letters, digits and '-', at
// most 32. Throws Exception where the name is malformed or taken.
void add_codec(const std::string& name, CodecMaker maker);

}  // namespace mzcache
