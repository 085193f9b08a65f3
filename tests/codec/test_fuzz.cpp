// A short, seeded run of the fuzz entry: well-formed chunks and thousands of mutations of them.
#include <cstring>
#include <random>

#include "codec/chunk_data.h"
#include "codec/q8.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::codec;
using namespace mzcache::codec::test;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// The same choices as the fuzz entry makes from its first four bytes.
std::vector<std::uint8_t> make_seed(std::mt19937_64& random) {
  constexpr std::uint32_t kHeads[] = {1, 2, 3, 5};
  constexpr std::uint32_t kDims[] = {64, 20, 80, 33, 1, 128};
  std::vector<std::uint8_t> seed(4);
  for (auto& byte : seed) byte = static_cast<std::uint8_t>(random());
  actors::ChunkLayout layout{
      seed[0] % 2 == 0 ? actors::ChunkLayout::Order::kTiled : actors::ChunkLayout::Order::kRowMajor,
      kHeads[seed[1] % 4], kDims[seed[2] % 6], 64};
  const Chunk chunk =
      make_chunk(layout, seed[3] % 64U + 1, kAllData[random() % std::size(kAllData)], random);
  std::vector<std::byte> out(Q8Codec().bound(layout, chunk.token_count));
  const auto size = Q8Codec().encode(chunk.view(), out, {});
  REQUIRE(size.ok());
  seed.resize(4 + *size);
  std::memcpy(seed.data() + 4, out.data(), *size);
  return seed;
}

}  // namespace

TEST_CASE("decoding survives mutated chunks") {
  constexpr std::uint64_t kSeed = 4711;
  INFO("seed " << kSeed);
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 100; ++i) {
    const auto seed = make_seed(random);
    REQUIRE(LLVMFuzzerTestOneInput(seed.data(), seed.size()) == 0);
    for (int j = 0; j < 40; ++j) {
      auto mutant = seed;
      const std::size_t changes = random() % 8;
      // Half of the changes hit the choices and the header, where most checks are.
      for (std::size_t k = 0; k < changes; ++k) {
        const std::size_t range = random() % 2 == 0 ? 36 : mutant.size();
        mutant[random() % range] = static_cast<std::uint8_t>(random());
      }
      if (random() % 4 == 0) mutant.resize(random() % mutant.size());
      if (random() % 8 == 0) mutant.insert(mutant.end(), random() % 100, std::uint8_t{0x7F});
      REQUIRE(LLVMFuzzerTestOneInput(mutant.data(), mutant.size()) == 0);
    }
  }
}
