// Runs the fuzzer's entry function over every seed and some thousand mutations of each, without a
// fuzzer.  test_fuzz_gguf FOLDER [SEED] [MUTATIONS]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Random = std::mt19937_64;

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

// One to four changes: a flipped bit, a field of extreme value, bytes cut, doubled or moved.
std::string mutate(std::string bytes, Random& random) {
  static constexpr std::uint64_t kExtremes[] = {0,
                                                1,
                                                3,
                                                0x7F,
                                                0xFF,
                                                0xFFFF,
                                                0x7FFFFFFF,
                                                0x80000000,
                                                0xFFFFFFFF,
                                                std::uint64_t{1} << 32,
                                                std::uint64_t{1} << 61,
                                                std::uint64_t{1} << 63,
                                                ~std::uint64_t{0},
                                                ~std::uint64_t{31}};
  const auto below = [&](std::size_t limit) { return limit == 0 ? 0 : random() % limit; };
  const std::size_t changes = 1 + below(4);
  for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const std::size_t at = below(bytes.size());
    const std::size_t left = bytes.size() - at;
    switch (below(5)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1: {
        const std::uint64_t value = kExtremes[below(std::size(kExtremes))];
        const std::size_t width = std::min(left, below(2) == 0 ? sizeof(std::uint32_t) : 8);
        std::copy_n(reinterpret_cast<const char*>(&value), width,
                    bytes.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      }
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, std::min<std::size_t>(left, 1 + below(64))));
        break;
      default:
        bytes.erase(at, std::min<std::size_t>(left, 1 + below(16)));
        break;
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: test_fuzz_gguf FOLDER [SEED] [MUTATIONS]\n");
    return 2;
  }
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 20240607;
  const std::uint64_t mutations = argc > 3 ? std::strtoull(argv[3], nullptr, 0) : 20000;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) {
    std::fprintf(stderr, "no seeds in %s\n", argv[1]);
    return 1;
  }
  Random random(seed);
  for (const auto& path : paths) {
    std::ifstream stream(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(stream)),
                            std::istreambuf_iterator<char>());
    run(bytes);
    for (std::uint64_t i = 0; i < mutations; ++i) run(mutate(bytes, random));
  }
  std::printf("%zu seeds, %llu mutations of each\n", paths.size(),
              static_cast<unsigned long long>(mutations));
  return 0;
}
