// KV codecs on one core: GB/s of FP16 decoded or encoded, over a working set far larger than the
// caches, beside memcpy of the same FP16 bytes in the same run.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "codec/half.h"
#include "codec/q8.h"

namespace {

using namespace mzcache;

constexpr std::uint64_t kWorkingSetBytes = std::uint64_t{256} << 20;

struct Aligned {
  explicit Aligned(std::uint64_t bytes)
      : size(bytes), data(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{4096}))) {
    std::memset(data, 0, bytes);
  }
  ~Aligned() { ::operator delete(data, std::align_val_t{4096}); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  std::uint64_t size;
  std::byte* data;
};

// Chunks of one layout, plain and encoded.
struct Corpus {
  explicit Corpus(const actors::ChunkLayout& chunk_layout)
      : layout(chunk_layout),
        chunks(kWorkingSetBytes / layout.bytes()),
        encoded_bytes(actors::align_up(codec::Q8Codec().typical_bytes(layout, layout.tokens), 64)),
        plain(chunks * layout.bytes()),
        other(chunks * layout.bytes()),
        encoded(chunks * encoded_bytes) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::uint64_t i = 0; i < layout.bytes() / 2; ++i) {
      codec::store_half(plain.data + 2 * i, codec::float_to_half(normal(random)));
    }
    for (std::uint64_t c = 1; c < chunks; ++c) {
      std::memcpy(plain.data + c * layout.bytes(), plain.data, layout.bytes());
    }
  }
  [[nodiscard]] actors::ChunkView view(std::uint64_t c) const {
    return {0,       0,       layout.tokens,
            &layout, nullptr, {plain.data + c * layout.bytes(), layout.bytes()}};
  }
  [[nodiscard]] actors::MutableChunkView target(std::uint64_t c) const {
    return {0,       0,       layout.tokens,
            &layout, nullptr, {other.data + c * layout.bytes(), layout.bytes()}};
  }
  [[nodiscard]] std::span<std::byte> slot(std::uint64_t c) const {
    return {encoded.data + c * encoded_bytes, encoded_bytes};
  }
  actors::ChunkLayout layout;
  std::uint64_t chunks;
  std::uint64_t encoded_bytes;
  Aligned plain;
  Aligned other;
  Aligned encoded;
};

void count(benchmark::State& state, const Corpus& corpus) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(corpus.plain.size));
}

void memory_copy(benchmark::State& state, const actors::ChunkLayout& layout) {
  const Corpus corpus(layout);
  for ([[maybe_unused]] auto _ : state) {
    for (std::uint64_t c = 0; c < corpus.chunks; ++c) {
      std::memcpy(corpus.target(c).bytes.data(), corpus.view(c).bytes.data(), layout.bytes());
    }
    benchmark::ClobberMemory();
  }
  count(state, corpus);
}

void encode(benchmark::State& state, const codec::Q8Kernels* kernels,
            const actors::ChunkLayout& layout) {
  const Corpus corpus(layout);
  const codec::Q8Codec codec(*kernels);
  for ([[maybe_unused]] auto _ : state) {
    for (std::uint64_t c = 0; c < corpus.chunks; ++c) {
      if (!codec.encode(corpus.view(c), corpus.slot(c), {})) state.SkipWithError("encode failed");
    }
  }
  count(state, corpus);
}

void decode(benchmark::State& state, const codec::Q8Kernels* kernels,
            const actors::ChunkLayout& layout) {
  const Corpus corpus(layout);
  const codec::Q8Codec codec(*kernels);
  for (std::uint64_t c = 0; c < corpus.chunks; ++c) {
    if (!codec.encode(corpus.view(c), corpus.slot(c), {})) state.SkipWithError("encode failed");
  }
  for ([[maybe_unused]] auto _ : state) {
    for (std::uint64_t c = 0; c < corpus.chunks; ++c) {
      if (!codec.decode(corpus.slot(c), corpus.target(c), {})) state.SkipWithError("decode failed");
    }
  }
  count(state, corpus);
}

}  // namespace

int main(int argc, char** argv) {
  const codec::Q8Kernels* variants[4] = {};
  const std::size_t variant_count = codec::q8_kernel_variants(variants);
  using Order = actors::ChunkLayout::Order;
  const struct {
    const char* name;
    actors::ChunkLayout layout;
  } layouts[] = {{"tiled_3x64", {Order::kTiled, 3, 64, 256}},
                 {"tiled_8x128", {Order::kTiled, 8, 128, 256}},
                 {"rows_8x128", {Order::kRowMajor, 8, 128, 256}}};
  for (const auto& entry : layouts) {
    const std::string suffix = std::string("/") + entry.name;
    benchmark::RegisterBenchmark(("memcpy" + suffix).c_str(), memory_copy, entry.layout);
    for (std::size_t v = 0; v < variant_count; ++v) {
      const std::string variant = std::string("/") + variants[v]->name + suffix;
      benchmark::RegisterBenchmark(("q8_decode" + variant).c_str(), decode, variants[v],
                                   entry.layout);
      benchmark::RegisterBenchmark(("q8_encode" + variant).c_str(), encode, variants[v],
                                   entry.layout);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
