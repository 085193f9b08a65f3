// Properties of whole codecs over layouts, partial chunks and hard data.
#include <cmath>
#include <cstring>
#include <random>

#include "codec/chunk_data.h"
#include "codec/chunk_values.h"
#include "codec/encoded_header.h"
#include "codec/half.h"
#include "codec/none.h"
#include "codec/q8.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::codec;
using namespace mzcache::codec::test;

namespace {

constexpr std::uint32_t kTokenCounts[] = {256, 1, 31, 32, 33, 100, 255};
constexpr std::byte kUntouched{0xA5};

std::vector<std::byte> encoded(const actors::KvCodec& codec, const Chunk& chunk) {
  std::vector<std::byte> out(codec.bound(chunk.layout, chunk.token_count));
  const auto size = codec.encode(chunk.view(), out, {});
  REQUIRE(size.ok());
  REQUIRE(*size <= out.size());
  out.resize(*size);
  return out;
}

Chunk decoded(const actors::KvCodec& codec, const std::vector<std::byte>& bytes,
              const Chunk& like) {
  Chunk chunk{like.layout, like.token_count,
              std::vector<std::byte>(like.layout.bytes(), kUntouched)};
  const auto ok = codec.decode(bytes, chunk.mutable_view(), {});
  REQUIRE(ok.ok());
  return chunk;
}

std::uint16_t value_at(const Chunk& chunk, bool v, std::uint32_t token, std::uint32_t channel) {
  const std::uint64_t index =
      v ? chunk.layout.values_per_half() + v_index(chunk.layout, token, channel)
        : k_index(chunk.layout, token, channel);
  return load_half(chunk.bytes.data() + 2 * index);
}

// Calls visit(v, token, channel) for every value, valid or not.
template <class Visit>
void for_each_value(const actors::ChunkLayout& layout, Visit visit) {
  for (const bool v : {false, true}) {
    for (std::uint32_t token = 0; token < layout.tokens; ++token) {
      for (std::uint32_t c = 0; c < layout.kv_heads * layout.head_dim; ++c) visit(v, token, c);
    }
  }
}

// Invalid tokens must be as they were before decoding.
void check_untouched(const Chunk& chunk) {
  std::uint64_t wrong = 0;
  for_each_value(chunk.layout, [&](bool v, std::uint32_t token, std::uint32_t channel) {
    if (token >= chunk.token_count) wrong += value_at(chunk, v, token, channel) != 0xA5A5;
  });
  REQUIRE(wrong == 0);
}

// |x − y| ≤ half a step + half a unit in FP16's last place, for every value of every group.
void check_error_bound(const Chunk& before, const Chunk& after) {
  const std::uint32_t width = before.layout.kv_heads * before.layout.head_dim;
  double worst = 0;
  for (const bool v : {false, true}) {
    for (std::uint32_t token = 0; token < before.token_count; ++token) {
      for (std::uint32_t first = 0; first < width; first += kGroupValues) {
        const std::uint32_t last = std::min(width, first + kGroupValues);
        double low = INFINITY;
        double high = -INFINITY;
        for (std::uint32_t c = first; c < last; ++c) {
          const double x = half_to_float(value_at(before, v, token, c));
          low = std::min(low, x);
          high = std::max(high, x);
        }
        for (std::uint32_t c = first; c < last; ++c) {
          const double x = half_to_float(value_at(before, v, token, c));
          const double y = half_to_float(value_at(after, v, token, c));
          const double unit =
              std::ldexp(1.0, std::max(std::ilogb(std::max(std::fabs(y), 0x1p-14)), -14) - 10);
          const double allowed = (high - low) / 255 * 0.5001 + unit * 0.5001;
          worst = std::max(worst, std::fabs(x - y) - allowed);
        }
      }
    }
  }
  REQUIRE(worst <= 0);
}

}  // namespace

TEST_CASE("tiled and row-major places of a value are all different and inside the chunk") {
  for (const auto& layout : all_layouts()) {
    INFO(describe(layout, layout.tokens));
    std::vector<bool> seen(2 * layout.values_per_half());
    std::uint64_t twice = 0;
    for_each_value(layout, [&](bool v, std::uint32_t token, std::uint32_t channel) {
      const std::uint64_t at = v ? layout.values_per_half() + v_index(layout, token, channel)
                                 : k_index(layout, token, channel);
      if (at >= seen.size() || seen[at]) {
        ++twice;
      } else {
        seen[at] = true;
      }
    });
    REQUIRE(twice == 0);
  }
  // Spelled out once: K [head][token/32][dim][32], V [head][dim/32][token][32], heads of 80.
  const actors::ChunkLayout layout{actors::ChunkLayout::Order::kTiled, 2, 80, 256};
  CHECK(k_index(layout, 70, 80 + 5) == 80 * 256 + (2 * 80 + 5) * 32 + 6);
  CHECK(v_index(layout, 70, 80 + 35) == 80 * 256 + 32 * 256 + 70 * 32 + 3);
  CHECK(v_index(layout, 70, 80 + 70) == 80 * 256 + 64 * 256 + 70 * 16 + 6);
}

TEST_CASE("none gives back every valid value and writes nothing else") {
  constexpr std::uint64_t kSeed = 3;
  std::mt19937_64 random(kSeed);
  const NoneCodec codec;
  REQUIRE(codec.lossless());
  for (const auto& layout : all_layouts()) {
    for (const std::uint32_t tokens : kTokenCounts) {
      INFO(describe(layout, tokens) << ", seed " << kSeed);
      Chunk chunk = make_chunk(layout, tokens, Data::kBits, random);
      store_half(chunk.bytes.data(), 0x7E01);  // NaN payloads survive too
      const auto bytes = encoded(codec, chunk);
      REQUIRE(bytes.size() == kHeaderBytes + valid_bytes(layout, tokens));
      const Chunk back = decoded(codec, bytes, chunk);
      std::uint64_t wrong = 0;
      for_each_value(layout, [&](bool v, std::uint32_t token, std::uint32_t c) {
        if (token < tokens) wrong += value_at(back, v, token, c) != value_at(chunk, v, token, c);
      });
      REQUIRE(wrong == 0);
      check_untouched(back);
    }
  }
}

TEST_CASE("q8 is a projection within its error bound, for every layout, length and kind of data") {
  constexpr std::uint64_t kSeed = 20260;
  std::mt19937_64 random(kSeed);
  const Q8Codec codec;
  const Q8Codec reference(kQ8Scalar);
  std::size_t turn = 0;
  for (const auto& layout : all_layouts()) {
    for (const std::uint32_t tokens : kTokenCounts) {
      const Data data = kAllData[turn++ % std::size(kAllData)];
      INFO(describe(layout, tokens) << ", data " << static_cast<int>(data) << ", seed " << kSeed);
      const Chunk chunk = make_chunk(layout, tokens, data, random);
      const auto bytes = encoded(codec, chunk);
      REQUIRE(bytes.size() == codec.typical_bytes(layout, tokens));
      REQUIRE(bytes == encoded(reference, chunk));
      const Chunk back = decoded(codec, bytes, chunk);
      REQUIRE(back.bytes == decoded(reference, bytes, chunk).bytes);
      check_untouched(back);
      check_error_bound(chunk, back);
      const auto again = encoded(codec, back);
      REQUIRE(again == bytes);
      REQUIRE(decoded(codec, again, chunk).bytes == back.bytes);
    }
  }
}

TEST_CASE("q8 decodes the same at any address, streaming or not") {
  std::mt19937_64 random(9);
  const actors::ChunkLayout layout{actors::ChunkLayout::Order::kTiled, 3, 64, 256};
  const Q8Codec codec;
  const Chunk chunk = make_chunk(layout, 256, Data::kRealLooking, random);
  auto bytes = encoded(codec, chunk);
  const Chunk expected = decoded(Q8Codec(kQ8Scalar), bytes, chunk);
  bytes.insert(bytes.begin(), std::byte{0});  // the encoded form at an odd address
  std::vector<std::byte> room(layout.bytes() + 128);
  auto* const base = room.data() + (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64);
  for (const std::size_t shift : {0, 2, 32}) {
    const actors::MutableChunkView view{0,       0,       256,
                                        &layout, nullptr, {base + shift, layout.bytes()}};
    REQUIRE(codec.decode(std::span(bytes).subspan(1), view, {}).ok());
    REQUIRE(std::memcmp(base + shift, expected.bytes.data(), layout.bytes()) == 0);
  }
}

TEST_CASE("q8 saves 46.9 percent and does not look at tokens that are not there") {
  std::mt19937_64 random(4);
  const actors::ChunkLayout layout{actors::ChunkLayout::Order::kTiled, 3, 64, 256};
  const Q8Codec codec;
  const double saved = 1.0 - static_cast<double>(codec.typical_bytes(layout, 256)) /
                                 static_cast<double>(layout.bytes());
  CHECK(saved > 0.4685);
  CHECK(saved < 0.4688);
  for (auto order : {actors::ChunkLayout::Order::kTiled, actors::ChunkLayout::Order::kRowMajor}) {
    actors::ChunkLayout ordered = layout;
    ordered.order = order;
    Chunk chunk = make_chunk(ordered, 45, Data::kNormal, random);
    const auto bytes = encoded(codec, chunk);
    for_each_value(ordered, [&](bool v, std::uint32_t token, std::uint32_t c) {
      if (token < 45) return;
      const std::uint64_t at =
          v ? ordered.values_per_half() + v_index(ordered, token, c) : k_index(ordered, token, c);
      store_half(chunk.bytes.data() + 2 * at, 0x7E00);
    });
    REQUIRE(encoded(codec, chunk) == bytes);
  }
}

TEST_CASE("q8 keeps a chunk with Inf or NaN raw, bit for bit") {
  std::mt19937_64 random(6);
  const Q8Codec codec;
  for (const auto& layout : all_layouts()) {
    for (const unsigned bad : {0x7C00U, 0xFC00U, 0x7D55U}) {
      Chunk chunk = make_chunk(layout, 200, Data::kNormal, random);
      const auto channel =
          static_cast<std::uint32_t>(random() % (layout.kv_heads * layout.head_dim));
      store_half(chunk.bytes.data() + 2 * k_index(layout, 150, channel),
                 static_cast<std::uint16_t>(bad));
      const auto bytes = encoded(codec, chunk);
      INFO(describe(layout, 200));
      REQUIRE(bytes.size() == kHeaderBytes + valid_bytes(layout, 200));
      const Chunk back = decoded(codec, bytes, chunk);
      REQUIRE(value_at(back, false, 150, channel) == bad);
      REQUIRE(encoded(codec, back) == bytes);
      check_untouched(back);
      std::vector<std::byte> small(codec.typical_bytes(layout, 200));
      if (small.size() < bytes.size()) {
        REQUIRE(codec.encode(chunk.view(), small, {}).error().code == ErrorCode::kBadArgument);
      }
    }
  }
}

TEST_CASE("q8 says where a device finds the values of a full chunk") {
  std::mt19937_64 random(20);
  const Q8Codec q8;
  const actors::ChunkLayout tiled{actors::ChunkLayout::Order::kTiled, 2, 64, 256};
  const auto place = [&](const Chunk& chunk, const std::vector<std::byte>& bytes) {
    return q8.in_place(bytes, chunk.layout, chunk.token_count);
  };
  const Chunk full = make_chunk(tiled, 256, Data::kNormal, random);
  std::vector<std::byte> bytes = encoded(q8, full);
  CHECK(place(full, bytes).data() == bytes.data() + kHeaderBytes);
  CHECK(place(full, bytes).size() == bytes.size() - kHeaderBytes);
  bytes.pop_back();
  CHECK(place(full, bytes).empty());

  const Chunk started = make_chunk(tiled, 255, Data::kNormal, random);
  CHECK(place(started, encoded(q8, started)).empty());
  Chunk raw = make_chunk(tiled, 256, Data::kNormal, random);
  store_half(raw.bytes.data(), 0x7C00);
  CHECK(place(raw, encoded(q8, raw)).empty());
  const actors::ChunkLayout rows{actors::ChunkLayout::Order::kRowMajor, 2, 64, 256};
  const Chunk by_rows = make_chunk(rows, 256, Data::kNormal, random);
  CHECK(place(by_rows, encoded(q8, by_rows)).empty());
  const NoneCodec none;
  CHECK(none.in_place(encoded(none, full), tiled, 256).empty());
}

TEST_CASE("bad views and bad bytes are named") {
  std::mt19937_64 random(8);
  const actors::ChunkLayout layout{actors::ChunkLayout::Order::kTiled, 2, 64, 256};
  const Q8Codec q8;
  const NoneCodec none;
  for (const actors::KvCodec* codec :
       {static_cast<const actors::KvCodec*>(&q8), static_cast<const actors::KvCodec*>(&none)}) {
    Chunk chunk = make_chunk(layout, 256, Data::kNormal, random);
    const auto bytes = encoded(*codec, chunk);
    const auto decode_code = [&](const std::vector<std::byte>& from) {
      const auto result = codec->decode(from, chunk.mutable_view(), {});
      return result.ok() ? ErrorCode::kOk : result.error().code;
    };
    REQUIRE(decode_code(bytes) == ErrorCode::kOk);
    for (std::size_t i = 0; i < kHeaderBytes; ++i) {
      auto broken = bytes;
      broken[i] ^= std::byte{0x40};
      INFO("header byte " << i);
      REQUIRE(decode_code(broken) == ErrorCode::kBadFormat);
    }
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{31}, std::size_t{32}, bytes.size() - 1}) {
      REQUIRE(decode_code({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}) ==
              ErrorCode::kBadFormat);
    }
    auto padded = bytes;
    padded.resize(padded.size() + 4096);
    REQUIRE(decode_code(padded) == ErrorCode::kOk);

    std::vector<std::byte> out(codec->bound(layout, 256) - layout.bytes());
    REQUIRE(codec->encode(chunk.view(), out, {}).error().code == ErrorCode::kBadArgument);
    out.resize(codec->bound(layout, 256));
    auto view = chunk.view();
    for (const std::uint32_t tokens : {0U, 257U}) {
      view.token_count = tokens;
      REQUIRE(codec->encode(view, out, {}).error().code == ErrorCode::kBadArgument);
    }
    view = chunk.view();
    view.bytes = view.bytes.first(view.bytes.size() - 2);
    REQUIRE(codec->encode(view, out, {}).error().code == ErrorCode::kBadArgument);
    view = chunk.view();
    actors::ChunkLayout odd = layout;
    odd.tokens = 250;
    view.layout = &odd;
    view.token_count = 250;
    REQUIRE(codec->encode(view, out, {}).error().code == ErrorCode::kBadArgument);
    view.layout = nullptr;
    REQUIRE(codec->encode(view, out, {}).error().code == ErrorCode::kBadArgument);
  }
  Chunk chunk = make_chunk(layout, 256, Data::kNormal, random);
  auto bytes = encoded(q8, chunk);
  store_half(bytes.data() + kHeaderBytes + 2 * 300, 0xFC00);
  const auto result = q8.decode(bytes, chunk.mutable_view(), {});
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().context == "parameter 300 is not finite");
}
