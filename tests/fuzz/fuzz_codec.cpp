#include "fuzz/fuzz_codec.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

namespace mzcache::codec::test {
namespace {

constexpr std::array<std::uint32_t, 4> kHeads{1, 2, 3, 5};
constexpr std::array<std::uint32_t, 6> kDims{64, 20, 80, 33, 1, 128};
constexpr std::uint32_t kTokens = 64;

[[noreturn]] void fail(const actors::KvCodec& codec, const std::string& what) {
  std::fprintf(stderr, "fuzz_codec: %s: %s\n", std::string(codec.name()).c_str(), what.c_str());
  std::abort();
}

std::vector<std::byte> encode(const actors::KvCodec& codec, const FuzzChoice& choice,
                              std::span<const std::byte> chunk, std::span<std::byte> scratch) {
  std::vector<std::byte> out(codec.bound(choice.layout, choice.token_count));
  const auto size = codec.encode(choice.view(chunk), out, scratch);
  if (!size) fail(codec, size.error().message());
  if (*size > out.size()) fail(codec, "more bytes than its bound");
  out.resize(*size);
  return out;
}

}  // namespace

FuzzChoice fuzz_choice(const std::uint8_t* data) {
  using Order = actors::ChunkLayout::Order;
  using Pairing = actors::RopeDescription::Pairing;
  FuzzChoice choice;
  choice.layout.order = data[0] % 2 == 0 ? Order::kTiled : Order::kRowMajor;
  choice.layout.kv_heads = kHeads[data[1] % std::size(kHeads)];
  choice.layout.head_dim = kDims[data[2] % std::size(kDims)];
  choice.layout.tokens = kTokens;
  choice.token_count = data[3] % kTokens + 1;
  choice.layer = data[1] / 4U % 3U;
  choice.first_position = data[2] / 6U % 3U * kTokens;
  choice.rope.pairing = (data[0] & 2U) == 0 ? Pairing::kInterleaved : Pairing::kSplitHalves;
  choice.rope.dimensions = (data[0] & 4U) == 0 ? choice.layout.head_dim / 2 * 2 : 0;
  return choice;
}

void fuzz_codec(const actors::KvCodec& codec, const std::uint8_t* data, std::size_t size) {
  if (size < kFuzzChoiceBytes) return;
  const FuzzChoice choice = fuzz_choice(data);
  const auto encoded = std::as_bytes(std::span(data, size)).subspan(kFuzzChoiceBytes);
  std::vector<std::byte> chunk(choice.layout.bytes());
  std::vector<std::byte> scratch(codec.scratch_bytes(choice.layout));
  const auto decoded = codec.decode(encoded, choice.view(std::span(chunk)), scratch);
  if (!decoded) {
    if (decoded.error().message().empty()) fail(codec, "an error without a message");
    return;
  }
  const auto first = encode(codec, choice, chunk, scratch);
  if (!codec.decode(first, choice.view(std::span(chunk)), scratch)) {
    fail(codec, "refuses what it encoded");
  }
  const std::vector<std::byte> once = chunk;
  const auto second = encode(codec, choice, chunk, scratch);
  if (!codec.decode(second, choice.view(std::span(chunk)), scratch)) {
    fail(codec, "refuses what it encoded again");
  }
  if (chunk != once) fail(codec, "a second cycle changed values");
}

}  // namespace mzcache::codec::test
