// The parts of entropy and packed alone: tables, streams, planes, clamping, profiles.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "codec/kv_profile.h"
#include "codec/simd_variants.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::codec;

namespace {

std::vector<const SimdVariant*> variants() {
  std::array<const SimdVariant*, kSimdVariantsMax> found{};
  const std::size_t count = simd_variants(found.data());
  return {found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count)};
}

// Rows of symbols that fit their classes, some of them escapes.
struct Rows {
  std::vector<std::int16_t> symbols;
  std::vector<std::uint8_t> classes;
};
Rows make_rows(std::uint32_t rows, bool per_lane, std::mt19937_64& random) {
  Rows made;
  made.classes.resize(per_lane ? kRansLanes : rows);
  for (auto& table : made.classes) table = static_cast<std::uint8_t>(random() % kRansClasses);
  for (std::uint32_t i = 0; i < rows * kRansLanes; ++i) {
    const std::uint32_t table = made.classes[per_lane ? i % kRansLanes : i / kRansLanes];
    const double sigma = std::exp2((static_cast<int>(table) + kRansClassMin) / 4.0);
    std::normal_distribution<double> normal(0, table == kFlat ? 0.0 : sigma);
    const int symbol = static_cast<int>(std::lround(normal(random)));
    const int limit = rans_tables().limit[table];
    made.symbols.push_back(static_cast<std::int16_t>(std::abs(symbol) > limit ? kEscape : symbol));
  }
  return made;
}

}  // namespace

TEST_CASE("rANS tables are whole, and slots know their symbols") {
  const RansTables& tables = rans_tables();
  for (std::uint32_t table = 0; table < kRansClasses; ++table) {
    std::array<std::uint32_t, 256> frequency{};
    for (std::size_t i = 0; i < 256; ++i) frequency[i] = tables.codes[table][i] & 0xFFFFU;
    CAPTURE(table);
    REQUIRE(std::accumulate(std::begin(frequency), std::end(frequency), 0U) == kRansTotal);
    REQUIRE(*std::max_element(std::begin(frequency), std::end(frequency)) < kRansTotal);
    for (int symbol = -tables.limit[table]; symbol <= tables.limit[table]; ++symbol) {
      REQUIRE(frequency[static_cast<std::size_t>(symbol + 128)] > 0);
    }
    REQUIRE(frequency[kEscape + 128] > 0);
    for (std::uint32_t slot = 0; slot < kRansTotal; ++slot) {
      const std::uint32_t entry = tables.slots[table][slot];
      const int symbol = static_cast<std::int8_t>(entry >> 24);
      REQUIRE((entry & 0xFFFU) == frequency[static_cast<std::size_t>(symbol + 128)]);
      REQUIRE((entry >> 12 & 0xFFFU) + (tables.codes[table][symbol + 128] >> 16) == slot);
    }
  }
  CHECK(rans_class(1.0) == -kRansClassMin);
  CHECK(rans_class(0.0) == 0);
  CHECK(rans_class(1e9) == kRansClassMax - kRansClassMin);
}

TEST_CASE("rANS streams come back, in every instruction set, close to their entropy") {
  constexpr std::uint64_t kSeed = 31;
  std::mt19937_64 random(kSeed);
  for (const std::uint32_t count : {1U, 2U, 63U, 64U, 257U}) {
    for (const bool per_lane : {false, true}) {
      CAPTURE(count, per_lane, kSeed);
      const Rows rows = make_rows(count, per_lane, random);
      const std::size_t room = std::size_t{count + 1} * kRansRowWords * 2;
      std::vector<std::byte> buffer(room);
      RansEncoder encoder{};
      for (const SimdVariant* variant : variants()) {
        CAPTURE(variant->name);
        std::vector<std::byte> mine(room);
        RansEncoder other{};
        rans_start(other, mine.data(), mine.data() + room, count);
        for (std::uint32_t row = count; row-- > 0;) {
          REQUIRE(variant->rans->encode(other, rans_tables(),
                                        rows.classes.data() + (per_lane ? 0 : row), per_lane,
                                        rows.symbols.data() + std::size_t{row} * kRansLanes));
        }
        const auto taken = static_cast<std::size_t>(mine.data() + room - other.words);
        if (variant == variants().front()) {
          buffer = mine;
          encoder = other;
          encoder.words = buffer.data() + room - taken;
        }
        REQUIRE(static_cast<std::size_t>(buffer.data() + room - encoder.words) == taken);
        REQUIRE(std::memcmp(encoder.words, other.words, taken) == 0);
        REQUIRE(std::memcmp(encoder.states, other.states, sizeof other.states) == 0);
      }
      double ideal_bits = 0;
      for (std::uint32_t row = count; row-- > 0;) {
        const std::int16_t* const symbols = rows.symbols.data() + std::size_t{row} * kRansLanes;
        const std::uint8_t* const classes = rows.classes.data() + (per_lane ? 0 : row);
        for (std::uint32_t lane = 0; lane < kRansLanes; ++lane) {
          const auto& codes = rans_tables().codes[classes[per_lane ? lane : 0]];
          ideal_bits -= std::log2((codes[symbols[lane] + 128] & 0xFFFFU) / double{kRansTotal});
        }
      }
      const auto bytes = static_cast<std::size_t>(buffer.data() + room - encoder.words);
      // The states hold 16 to 32 bits each of what is not in words.
      CHECK(static_cast<double>(bytes) * 8 <= ideal_bits * 1.001 + 64);
      std::vector<std::byte> words(bytes + room);
      std::memcpy(words.data(), encoder.words, bytes);
      for (const SimdVariant* variant : variants()) {
        CAPTURE(variant->name);
        RansDecoder decoder{};
        std::memcpy(decoder.states, encoder.states, sizeof decoder.states);
        decoder.words = words.data();
        std::vector<std::int16_t> symbols(rows.symbols.size());
        // In two steps, the first of an odd number of rows.
        const std::uint32_t first = count / 2 | 1U;
        variant->rans->decode(decoder, rans_tables(), rows.classes.data(), per_lane, first,
                              symbols.data());
        variant->rans->decode(decoder, rans_tables(), rows.classes.data() + (per_lane ? 0 : first),
                              per_lane, count - first,
                              symbols.data() + std::size_t{first} * kRansLanes);
        REQUIRE(symbols == rows.symbols);
        REQUIRE(decoder.words == words.data() + bytes);
      }
    }
  }
}

// Three blocks that lie as a codec's do, packed by one variant.
struct Packed {
  std::vector<std::int16_t> symbols;
  std::vector<std::byte> bytes;
};
constexpr std::uint32_t kBlocks = 3;
Packed pack(const PlaneKernels& planes, std::vector<std::int16_t> symbols, std::size_t room) {
  Packed packed{std::move(symbols), std::vector<std::byte>(room)};
  std::int16_t* const low = packed.symbols.data();
  std::byte* const end = planes.pack_blocks(low, low + 32, kPlaneValues, kBlocks,
                                            packed.bytes.data(), packed.bytes.data() + room);
  packed.bytes.resize(end == nullptr ? 0 : static_cast<std::size_t>(end - packed.bytes.data()));
  return packed;
}

TEST_CASE("planes pack and unpack every width, and clamping is done once") {
  constexpr std::uint64_t kSeed = 32;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round, kSeed);
    std::vector<std::int16_t> symbols(std::size_t{kBlocks} * kPlaneValues);
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      const double spread = std::exp2(static_cast<double>(random() % 11) - 1);
      std::normal_distribution<double> normal(static_cast<double>(random() % 200) - 100, spread);
      for (std::uint32_t i = 0; i < kPlaneValues; ++i) {
        const long symbol = std::clamp(std::lround(normal(random)), -2000L, 2000L);
        symbols[block * kPlaneValues + i] = static_cast<std::int16_t>(symbol);
      }
    }
    const Packed reference = pack(kPlaneScalar, symbols, kBlocks * kBlockBytesMax);
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      const auto first = symbols.begin() + block * kPlaneValues;
      const auto clamped = reference.symbols.begin() + block * kPlaneValues;
      const auto [least, most] = std::minmax_element(clamped, clamped + kPlaneValues);
      for (std::uint32_t i = 0; i < kPlaneValues; ++i) {
        REQUIRE(clamped[i] == std::clamp(first[i], *least, *most));
        REQUIRE(std::abs(clamped[i] - first[i]) <= 8);
      }
    }
    const Packed again = pack(kPlaneScalar, reference.symbols, kBlocks * kBlockBytesMax);
    REQUIRE(again.symbols == reference.symbols);
    REQUIRE(again.bytes == reference.bytes);
    for (const SimdVariant* variant : variants()) {
      CAPTURE(variant->name);
      // Just room enough, and a byte less.
      const Packed mine = pack(*variant->planes, symbols, reference.bytes.size());
      REQUIRE(mine.symbols == reference.symbols);
      REQUIRE(mine.bytes == reference.bytes);
      REQUIRE(pack(*variant->planes, symbols, reference.bytes.size() - 1).bytes.empty());
      const std::vector<std::byte> bytes = reference.bytes;
      const std::byte* const end = bytes.data() + bytes.size();
      std::vector<std::int16_t> back(symbols.size());
      const auto unpack = [&](const std::byte* limit) {
        return variant->planes->unpack_blocks(bytes.data(), limit, kBlocks, back.data(),
                                              back.data() + 32, kPlaneValues);
      };
      for (std::size_t cut = 1; cut <= bytes.size(); ++cut) REQUIRE(unpack(end - cut) == nullptr);
      REQUIRE(unpack(end) == end);
      REQUIRE(back == reference.symbols);
    }
  }
}

// What bytes may say that packing never writes.
TEST_CASE("planes of any bytes are unpacked the same in every instruction set") {
  constexpr std::uint64_t kSeed = 33;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 20000; ++round) {
    CAPTURE(round, kSeed);
    std::vector<std::byte> bytes(random() % (2 * kBlockBytesMax));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    std::vector<std::int16_t> expected;
    std::ptrdiff_t expected_end = 0;
    for (const SimdVariant* variant : variants()) {
      CAPTURE(variant->name);
      std::vector<std::int16_t> symbols(std::size_t{2} * kPlaneValues);
      const std::byte* const end = variant->planes->unpack_blocks(
          bytes.data(), bytes.data() + bytes.size(), 2, symbols.data(), symbols.data() + 32, 64);
      const std::ptrdiff_t used = end == nullptr ? -1 : end - bytes.data();
      if (expected.empty()) {
        expected = symbols;
        expected_end = used;
      }
      REQUIRE(used == expected_end);
      if (used >= 0) REQUIRE(symbols == expected);
    }
  }
}

TEST_CASE("a transposed square is one in every instruction set") {
  std::vector<std::int16_t> square(std::size_t{32} * 64);
  std::iota(square.begin(), square.end(), std::int16_t{0});
  for (const SimdVariant* variant : variants()) {
    std::vector<std::int16_t> turned(std::size_t{32} * 40);
    variant->planes->transpose(square.data(), 64, turned.data(), 40);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      for (std::size_t k = 0; k < 32; ++k) wrong += turned[i * 40 + k] != square[k * 64 + i];
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a profile's file is read as it was written, or refused with what is wrong") {
  KvProfile profile;
  profile.model = 0x123456789ABCDEFULL;
  profile.kv_heads = 2;
  profile.head_dim = 3;
  profile.tokens = 4096;
  for (float value = 0; value < 4; ++value) {
    const std::vector<float> six{value, 0.5F, -0.25F, 1.5F, -3.0F, 0.0F};
    const std::vector<float> energy{1, 4, 1024, 0.0625F, 1 + value, 2};
    profile.layers.push_back({six, six, energy, six, six});
  }
  const auto bytes = serialise(profile);
  const auto read = deserialise(bytes, "x.mzkp");
  REQUIRE(read.ok());
  CHECK(read->id != 0);
  CHECK(read->model == profile.model);
  REQUIRE(read->layers.size() == 4);
  CHECK(read->layers[3].k_mean == profile.layers[3].k_mean);
  CHECK(read->layers[2].v_sigma == profile.layers[2].v_sigma);
  CHECK(read->layers[1].query_energy[2] == 1024);
  CHECK(serialise(*read) == bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    const auto refused = deserialise(damaged, "x.mzkp");
    CHECK_FALSE(refused.ok());
    CHECK(refused.error().message().find("x.mzkp") != std::string::npos);
    CHECK_FALSE(deserialise(std::span(bytes).first(i), "x.mzkp").ok());
  }
}
