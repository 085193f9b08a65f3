// A short, seeded run of what the fuzzers do: well-formed chunks and thousands of mutations of
// them.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "codec/chunk_data.h"
#include "codec/registry.h"
#include "fuzz/fuzz_codec.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::codec;
using namespace mzcache::codec::test;

namespace {

constexpr const char* kCodecs[] = {"none",       "q8",      "q4",     "zstd",    "lz4",
                                   "split-zstd", "entropy", "packed", "cachegen"};

std::vector<std::uint8_t> make_seed(const actors::KvCodec& codec, std::mt19937_64& random) {
  std::vector<std::uint8_t> seed(kFuzzChoiceBytes);
  for (auto& byte : seed) byte = static_cast<std::uint8_t>(random());
  const FuzzChoice choice = fuzz_choice(seed.data());
  const Chunk chunk = make_chunk(choice.layout, choice.token_count,
                                 kAllData[random() % std::size(kAllData)], random);
  std::vector<std::byte> out(codec.bound(choice.layout, choice.token_count));
  std::vector<std::byte> scratch(codec.scratch_bytes(choice.layout));
  const auto size =
      codec.encode(choice.view(std::span<const std::byte>(chunk.bytes)), out, scratch);
  REQUIRE(size.ok());
  seed.resize(kFuzzChoiceBytes + *size);
  std::memcpy(seed.data() + kFuzzChoiceBytes, out.data(), *size);
  return seed;
}

}  // namespace

TEST_CASE("decoding survives mutated chunks") {
  constexpr std::uint64_t kSeed = 4711;
  for (const char* name : kCodecs) {
    INFO("codec " << name << ", seed " << kSeed);
    std::mt19937_64 random(kSeed);
    const auto codec = make_codec(name).value();
    for (int i = 0; i < 60; ++i) {
      const auto seed = make_seed(*codec, random);
      fuzz_codec(*codec, seed.data(), seed.size());
      for (int j = 0; j < 20; ++j) {
        auto mutant = seed;
        const std::size_t changes = random() % 8;
        // Half of the changes hit the choices and the header, where most checks are.
        for (std::size_t k = 0; k < changes; ++k) {
          const std::size_t range = random() % 2 == 0 ? 36 : mutant.size();
          mutant[random() % range] = static_cast<std::uint8_t>(random());
        }
        if (random() % 4 == 0) mutant.resize(random() % mutant.size());
        if (random() % 8 == 0) mutant.insert(mutant.end(), random() % 100, std::uint8_t{0x7F});
        fuzz_codec(*codec, mutant.data(), mutant.size());
      }
    }
  }
}

// Not run by default: MZCACHE_WRITE_SEEDS=tests/fuzz/seeds test_codec "[.seeds]"
TEST_CASE("writes small seeds for the fuzzers", "[.seeds]") {
  const char* folder = std::getenv("MZCACHE_WRITE_SEEDS");
  REQUIRE(folder != nullptr);
  for (const char* name : kCodecs) {
    std::mt19937_64 random(1);
    const auto codec = make_codec(name).value();
    const std::filesystem::path path =
        std::filesystem::path(folder) / (std::string("codec_") + name);
    std::filesystem::create_directories(path);
    for (int kept = 0; kept < 12;) {
      const auto seed = make_seed(*codec, random);
      if (seed.size() > 6000) continue;
      std::ofstream file(path / std::to_string(kept++), std::ios::binary);
      file.write(reinterpret_cast<const char*>(seed.data()),
                 static_cast<std::streamsize>(seed.size()));
    }
  }
}
