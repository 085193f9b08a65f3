// What every codec has to keep to: a second cycle changes no value, all instruction sets give the
// same bytes, tokens that are not there are neither looked at nor written, lossless ones lose
// nothing.
#include <array>
#include <cstring>
#include <random>

#include "codec/cachegen.h"
#include "codec/chunk_data.h"
#include "codec/chunk_values.h"
#include "codec/codecs_under_test.h"
#include "codec/encoded_header.h"
#include "codec/entropy.h"
#include "codec/half.h"
#include "codec/packed.h"
#include "codec/q4.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::codec;
using namespace mzcache::codec::test;

namespace {

using CodecPointer = std::shared_ptr<const actors::KvCodec>;

constexpr std::uint32_t kTokenCounts[] = {256, 1, 31, 32, 33, 100, 255};
constexpr std::byte kUntouched{0xA5};

// A chunk with its place in the model.
struct Placed {
  Chunk chunk;
  actors::RopeDescription rope;
  std::uint32_t layer = 0;
  std::uint32_t first_position = 0;

  template <class Byte>
  [[nodiscard]] actors::BasicChunkView<Byte> view(std::span<Byte> bytes) const {
    return {layer, first_position, chunk.token_count, &chunk.layout, &rope, bytes};
  }
};

std::vector<std::byte> encode(const actors::KvCodec& codec, const Placed& placed,
                              std::span<const std::byte> bytes) {
  std::vector<std::byte> out(codec.bound(placed.chunk.layout, placed.chunk.token_count));
  std::vector<std::byte> scratch(codec.scratch_bytes(placed.chunk.layout), std::byte{0x5A});
  const auto size = codec.encode(placed.view(bytes), out, scratch);
  REQUIRE(size.ok());
  REQUIRE(*size <= out.size());
  out.resize(*size);
  return out;
}

std::vector<std::byte> decode(const actors::KvCodec& codec, const Placed& placed,
                              std::span<const std::byte> encoded) {
  std::vector<std::byte> bytes(placed.chunk.layout.bytes(), kUntouched);
  std::vector<std::byte> scratch(codec.scratch_bytes(placed.chunk.layout), std::byte{0xC3});
  const auto decoded = codec.decode(encoded, placed.view(std::span(bytes)), scratch);
  INFO((decoded ? std::string() : decoded.error().message()));
  REQUIRE(decoded.ok());
  return bytes;
}

// Calls visit(offset of the value in the chunk, token).
template <class Visit>
void for_each_value(const actors::ChunkLayout& layout, Visit visit) {
  for (const bool v : {false, true}) {
    for (std::uint32_t token = 0; token < layout.tokens; ++token) {
      for (std::uint32_t c = 0; c < layout.kv_heads * layout.head_dim; ++c) {
        visit(2 * (v ? layout.values_per_half() + v_index(layout, token, c)
                     : k_index(layout, token, c)),
              token);
      }
    }
  }
}

Placed place(const actors::ChunkLayout& layout, std::uint32_t tokens, Data data, bool rotated,
             std::mt19937_64& random) {
  Placed placed;
  placed.chunk = make_chunk(layout, tokens, data, random);
  placed.layer = static_cast<std::uint32_t>(random() % 3);
  placed.first_position = static_cast<std::uint32_t>(random() % 3) * layout.tokens;
  placed.rope.dimensions = rotated ? layout.head_dim / 2 * 2 : 0;
  if (random() % 2 == 0) placed.rope.pairing = actors::RopeDescription::Pairing::kSplitHalves;
  return placed;
}

// One codec in every instruction set this processor has; the reference first.
std::vector<CodecPointer> variants_of(const std::string& name) {
  using Preset = EntropyCodec::Preset;
  std::array<const SimdVariant*, kSimdVariantsMax> found{};
  const std::size_t count = simd_variants(found.data());
  std::vector<CodecPointer> codecs;
  for (std::size_t i = 0; i < count; ++i) {
    if (name == "q4") codecs.push_back(std::make_shared<Q4Codec>(*found[i]->groups));
    if (name == "entropy") {
      codecs.push_back(std::make_shared<EntropyCodec>(Preset::kDefault, *found[i]));
    }
    if (name == "entropy:near") {
      codecs.push_back(std::make_shared<EntropyCodec>(Preset::kNear, *found[i]));
    }
    if (name == "cachegen") codecs.push_back(std::make_shared<CacheGenCodec>(*found[i]));
    if (name == "packed") codecs.push_back(std::make_shared<PackedCodec>(*found[i]));
  }
  if (codecs.empty()) codecs.push_back(codec_under_test(name));
  return codecs;
}

// A profile of other data of the same kind, with queries that look at channels unevenly.
std::shared_ptr<const KvProfile> make_profile(const actors::ChunkLayout& layout, Data data,
                                              std::mt19937_64& random) {
  ProfileBuilder builder(layout, 3);
  std::lognormal_distribution<float> energies(0, 1);
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    Placed placed = place(layout, layout.tokens, data, true, random);
    placed.layer = layer;
    builder.add_chunk(placed.view(std::span<const std::byte>(placed.chunk.bytes)), 1);
    std::vector<float> energy(std::size_t{2} * layout.kv_heads * layout.head_dim);
    for (float& value : energy) value = 100 * energies(random);
    builder.add_queries(layer, energy, 100, 1, placed.rope);
  }
  const auto profile = builder.build(1);
  REQUIRE(profile.ok());
  return std::make_shared<const KvProfile>(*profile);
}

void check_cycles(const std::string& name, const Placed& placed,
                  const std::shared_ptr<const KvProfile>& profile = nullptr) {
  const auto codecs = variants_of(name);
  for (const CodecPointer& codec : codecs) {
    if (profile != nullptr) dynamic_cast<const ProfiledCodec&>(*codec).adopt(profile);
  }
  const auto encoded = encode(*codecs.front(), placed, placed.chunk.bytes);
  const auto once = decode(*codecs.front(), placed, encoded);
  for (const CodecPointer& codec : codecs) {
    REQUIRE(encode(*codec, placed, placed.chunk.bytes) == encoded);
    REQUIRE(decode(*codec, placed, encoded) == once);
  }
  const auto twice = decode(*codecs.back(), placed, encode(*codecs.back(), placed, once));
  std::uint64_t touched = 0;
  std::uint64_t moved = 0;
  std::uint64_t lost = 0;
  for_each_value(placed.chunk.layout, [&](std::uint64_t offset, std::uint32_t token) {
    if (token >= placed.chunk.token_count) {
      touched += load_half(once.data() + offset) != 0xA5A5;
      return;
    }
    moved += load_half(once.data() + offset) != load_half(twice.data() + offset);
    lost += load_half(once.data() + offset) != load_half(placed.chunk.bytes.data() + offset);
  });
  REQUIRE(touched == 0);
  REQUIRE(moved == 0);
  if (codecs.front()->lossless()) REQUIRE(lost == 0);
}

}  // namespace

TEST_CASE("every codec: cycles, instruction sets and tokens that are not there") {
  constexpr std::uint64_t kSeed = 90;
  for (const std::string& name : codecs_under_test()) {
    std::mt19937_64 random(kSeed);
    std::size_t turn = 0;
    for (const auto& layout : all_layouts()) {
      for (const std::uint32_t tokens : kTokenCounts) {
        const Data data = kAllData[turn++ % std::size(kAllData)];
        INFO(name << ", " << describe(layout, tokens) << ", data " << static_cast<int>(data)
                  << ", seed " << kSeed);
        check_cycles(name, place(layout, tokens, data, turn % 3 != 0, random));
      }
    }
  }
}

TEST_CASE("codecs with a profile: cycles, instruction sets and tokens that are not there") {
  constexpr std::uint64_t kSeed = 94;
  for (const char* name : {"entropy", "entropy:near", "packed"}) {
    std::mt19937_64 random(kSeed);
    std::size_t turn = 0;
    for (const auto& layout : all_layouts()) {
      for (const std::uint32_t tokens : kTokenCounts) {
        // What a profile was made of is not always what comes.
        const Data data = kAllData[turn++ % std::size(kAllData)];
        INFO(name << ", " << describe(layout, tokens) << ", data " << static_cast<int>(data)
                  << ", seed " << kSeed);
        const auto profile =
            make_profile(layout, turn % 4 == 0 ? Data::kNormal : Data::kRealLooking, random);
        check_cycles(name, place(layout, tokens, data, turn % 3 != 0, random), profile);
      }
    }
  }
}

TEST_CASE("a chunk made with another profile is refused, and says with which") {
  std::mt19937_64 random(95);
  const actors::ChunkLayout layout{actors::ChunkLayout::Order::kTiled, 2, 64, 256};
  const Placed placed = place(layout, 256, Data::kRealLooking, true, random);
  const auto one = make_profile(layout, Data::kRealLooking, random);
  const auto other = make_profile(layout, Data::kRealLooking, random);
  REQUIRE(one->id != other->id);
  for (const char* name : {"entropy", "packed"}) {
    const auto maker = codec_under_test(name);
    const auto reader = codec_under_test(name);
    dynamic_cast<const ProfiledCodec&>(*maker).adopt(one);
    dynamic_cast<const ProfiledCodec&>(*reader).adopt(other);
    const auto encoded = encode(*maker, placed, placed.chunk.bytes);
    std::vector<std::byte> bytes(layout.bytes());
    std::vector<std::byte> scratch(reader->scratch_bytes(layout));
    const auto failed = reader->decode(encoded, placed.view(std::span(bytes)), scratch);
    CHECK(failed.error().code == ErrorCode::kBadFormat);
    CHECK(failed.error().context.find(std::to_string(one->id)) != std::string::npos);
    // What was made before there was a profile stays readable.
    const auto early = codec_under_test(name);
    const auto without = encode(*early, placed, placed.chunk.bytes);
    const auto before = decode(*early, placed, without);
    dynamic_cast<const ProfiledCodec&>(*early).adopt(one);
    CHECK(decode(*early, placed, without) == before);
  }
}

TEST_CASE("every codec keeps Inf and NaN as they are") {
  constexpr std::uint64_t kSeed = 91;
  for (const std::string& name : codecs_under_test()) {
    std::mt19937_64 random(kSeed);
    const auto codec = codec_under_test(name);
    for (const auto& layout : all_layouts()) {
      for (const unsigned bad : {0x7C00U, 0xFC00U, 0x7D55U}) {
        INFO(name << ", " << describe(layout, 200) << ", bits " << bad << ", seed " << kSeed);
        Placed placed = place(layout, 200, Data::kNormal, true, random);
        const std::uint32_t width = layout.kv_heads * layout.head_dim;
        const auto channel = static_cast<std::uint32_t>(random() % width);
        const std::uint64_t in_k = 2 * k_index(layout, 150, channel);
        const std::uint64_t in_v = 2 * (layout.values_per_half() + v_index(layout, 77, channel));
        store_half(placed.chunk.bytes.data() + in_k, static_cast<std::uint16_t>(bad));
        store_half(placed.chunk.bytes.data() + in_v, static_cast<std::uint16_t>(bad));
        check_cycles(name, placed);
        const auto back = decode(*codec, placed, encode(*codec, placed, placed.chunk.bytes));
        CHECK(load_half(back.data() + in_k) == bad);
        CHECK(load_half(back.data() + in_v) == bad);
      }
    }
  }
}

TEST_CASE("every codec says what is wrong with its arguments") {
  std::mt19937_64 random(92);
  for (const std::string& name : codecs_under_test()) {
    INFO(name);
    const auto codec = codec_under_test(name);
    const actors::ChunkLayout layout{actors::ChunkLayout::Order::kTiled, 2, 64, 256};
    const Placed placed = place(layout, 256, Data::kNormal, true, random);
    std::vector<std::byte> out(codec->bound(layout, 256));
    std::vector<std::byte> scratch(codec->scratch_bytes(layout));
    const auto view = placed.view(std::span<const std::byte>(placed.chunk.bytes));
    CHECK(codec->encode(view, std::span(out).first(31), scratch).error().code ==
          ErrorCode::kBadArgument);
    if (!scratch.empty()) {
      CHECK(codec->encode(view, out, std::span(scratch).first(scratch.size() - 1)).error().code ==
            ErrorCode::kBadArgument);
    }
    auto tall = view;
    tall.token_count = 257;
    CHECK(codec->encode(tall, out, scratch).error().code == ErrorCode::kBadArgument);
    const auto encoded = encode(*codec, placed, placed.chunk.bytes);
    std::vector<std::byte> bytes(layout.bytes());
    for (const std::size_t cut : {std::size_t{0}, std::size_t{31}, encoded.size() - 1}) {
      const auto failed =
          codec->decode(std::span(encoded).first(cut), placed.view(std::span(bytes)), scratch);
      CHECK(failed.error().code == ErrorCode::kBadFormat);
    }
  }
}

TEST_CASE("real-looking chunks shrink as much as they should") {
  std::mt19937_64 random(93);
  const actors::ChunkLayout layout{actors::ChunkLayout::Order::kTiled, 3, 64, 256};
  Placed placed = place(layout, 256, Data::kNormal, true, random);
  placed.first_position = 256;
  const auto saved = [&](const char* name) {
    const auto encoded = encode(*codec_under_test(name), placed, placed.chunk.bytes);
    return 1 - static_cast<double>(encoded.size()) / static_cast<double>(layout.bytes());
  };
  CHECK(saved("q4") > 0.718);
  CHECK(saved("entropy") > 0.75);
  CHECK(saved("entropy:near") > 0.69);
}
