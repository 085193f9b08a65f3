// libFuzzer entry: any bytes go through the decoders of q8 and none. The first four choose the
// layout and token count, the rest is what is decoded. What q8 accepts must be a stable encoding of
// what it decodes to, unless it was not made by its encoder (then it must at least stabilise).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "codec/none.h"
#include "codec/q8.h"

namespace {

using namespace mzcache;

constexpr std::uint32_t kHeads[] = {1, 2, 3, 5};
constexpr std::uint32_t kDims[] = {64, 20, 80, 33, 1, 128};

void decode_and_back(const actors::KvCodec& codec, std::span<const std::byte> encoded,
                     const actors::ChunkLayout& layout, std::uint32_t tokens) {
  std::vector<std::byte> chunk(layout.bytes());
  const actors::MutableChunkView view{0, 0, tokens, &layout, nullptr, chunk};
  if (!codec.decode(encoded, view, {})) return;
  std::vector<std::byte> first(codec.bound(layout, tokens));
  const actors::ChunkView read{0, 0, tokens, &layout, nullptr, chunk};
  const auto size = codec.encode(read, first, {});
  if (!size) std::abort();
  first.resize(*size);
  if (!codec.decode(first, view, {})) std::abort();
  std::vector<std::byte> second(codec.bound(layout, tokens));
  const auto size_again = codec.encode(read, second, {});
  if (!size_again || *size_again != *size) std::abort();
  if (std::memcmp(first.data(), second.data(), *size) != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  actors::ChunkLayout layout;
  layout.order =
      data[0] % 2 == 0 ? actors::ChunkLayout::Order::kTiled : actors::ChunkLayout::Order::kRowMajor;
  layout.kv_heads = kHeads[data[1] % std::size(kHeads)];
  layout.head_dim = kDims[data[2] % std::size(kDims)];
  layout.tokens = 64;
  const std::uint32_t tokens = data[3] % layout.tokens + 1;
  const auto encoded = std::as_bytes(std::span(data, size)).subspan(4);
  decode_and_back(codec::Q8Codec(), encoded, layout, tokens);
  decode_and_back(codec::NoneCodec(), encoded, layout, tokens);
  return 0;
}
