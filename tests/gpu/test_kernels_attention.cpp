#include <sstream>

#include "codec/q8.h"
#include "gpu/rope_angles.h"
#include "gpu/test_kernels_support.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

// Chunks of one layer in memory of the bench, filled with FP16 NaNs, and the table to them.
struct Chunks {
  std::vector<std::vector<std::byte>> memory;  // pointers
  std::unique_ptr<KernelBench::Unit> buffer;   // or one buffer
  gpu::ScratchBuffer table;
  gpu::DeviceChunks view;
};

struct Case {
  std::uint32_t head_dim = 64;
  std::uint32_t kv_heads = 1;
  std::uint32_t group = 1;
  std::uint32_t first = 0;
  std::uint32_t tokens = 1;
  std::uint32_t window = 0;
  float softcap = 0;
  std::uint32_t range_chunks = 2;
  std::uint32_t rotated = 0;
  bool split = false;
};

class AttentionCheck {
 public:
  AttentionCheck(KernelBench& bench, const Case& c, Random& random)
      : bench_(bench), c_(c), random_(random) {
    layout_ = {actors::ChunkLayout::Order::kTiled, c.kv_heads, c.head_dim, actors::kChunkTokens};
    shape_.heads = c.kv_heads * c.group;
    shape_.kv_heads = c.kv_heads;
    shape_.head_dim = c.head_dim;
    shape_.window = c.window;
    shape_.scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
    shape_.softcap = c.softcap;
    rope_.dimensions = c.rotated;
    rope_.pairing = c.split ? actors::RopeDescription::Pairing::kSplitHalves
                            : actors::RopeDescription::Pairing::kInterleaved;
    rope_.scale = 0.5F;
    for (std::uint32_t i = 0; i < c.rotated / 2; ++i) {
      rope_.factors.push_back(1.0F + static_cast<float>(i % 3));
    }
    make_chunks((c.first + c.tokens + 255) / 256);
  }

  void run() {
    INFO(description());
    const auto query = store_all();
    check_chunks();
    check_attention(query);
  }

  // Full chunks as q8 decodes them, and as it encodes them: what attention says is the same bits.
  void run_encoded() {
    INFO(description());
    const auto query = store_all();
    const auto encoded = encode_chunks();
    const auto decoded = attention(query);
    std::vector<std::uint64_t> table = entries();
    for (std::size_t i = 0; i < encoded.size(); ++i) table[2 + i] = tagged(encoded[i]);
    CHECK(attention(query, table) == decoded);
    for (std::size_t i = 0; i < encoded.size(); i += 2) table[2 + i] = entries()[2 + i];
    CHECK(attention(query, table) == decoded);
  }

 private:
  [[nodiscard]] std::string description() const {
    std::ostringstream text;
    text << "head size " << c_.head_dim << ", " << c_.kv_heads << " KV heads, group " << c_.group
         << ", " << c_.tokens << " tokens from " << c_.first << ", window " << c_.window
         << ", ranges of " << c_.range_chunks << ", rotated " << c_.rotated;
    return text.str();
  }
  // The context before the slice, in slices of other sizes, then the slice itself.
  gpu::ScratchBuffer store_all() {
    for (std::uint32_t at = 0; at < c_.first; at += 100) {
      (void)store(at, std::min(100U, c_.first - at));
    }
    return store(c_.first, c_.tokens);
  }

  using Encoded = std::vector<std::byte>;
  [[nodiscard]] std::span<const std::byte> in_place(const Encoded& bytes) const {
    return codec_.in_place(bytes, layout_, layout_.tokens);
  }
  [[nodiscard]] std::uint64_t tagged(const Encoded& bytes) const {
    return reinterpret_cast<std::uint64_t>(in_place(bytes).data()) + 1;
  }
  // Of every full chunk before the slice, whose values become what decoding gives.
  [[nodiscard]] std::vector<Encoded> encode_chunks() {
    std::vector<Encoded> all;
    for (std::uint32_t i = 0; (i + 1) * 256 <= c_.first; ++i) {
      auto& bytes = chunks_.memory[i];
      Encoded encoded(codec_.bound(layout_, 256));
      const auto size = codec_.encode({0, i * 256, 256, &layout_, &rope_, bytes}, encoded, {});
      REQUIRE(size);
      encoded.resize(*size);
      REQUIRE(codec_.decode(encoded, {0, i * 256, 256, &layout_, &rope_, bytes}, {}));
      REQUIRE(!in_place(encoded).empty());
      all.push_back(std::move(encoded));
    }
    return all;
  }
  [[nodiscard]] std::vector<std::uint64_t> entries() const {
    std::vector<std::uint64_t> table(2, ~0ULL);
    for (const auto& bytes : chunks_.memory) {
      table.push_back(reinterpret_cast<std::uint64_t>(bytes.data()));
    }
    return table;
  }

  void make_chunks(std::uint32_t count) {
    std::vector<std::uint64_t> table(2, ~0ULL);  // entries before the layer's own
    std::vector<std::byte> all;
    for (std::uint32_t i = 0; i < count; ++i) {
      chunks_.memory.emplace_back(layout_.bytes(), std::byte{0x7F});
      if (buffers()) {
        table.push_back(all.size());
        all.insert(all.end(), layout_.bytes() + 64, std::byte{0x7F});
      } else {
        table.push_back(reinterpret_cast<std::uint64_t>(chunks_.memory.back().data()));
      }
    }
    chunks_.buffer = bench_.unit(std::move(all));
    chunks_.table = bench_.buffer(table);
    chunks_.view = {chunks_.buffer->address, &chunks_.table, 2};
  }
  [[nodiscard]] bool buffers() const {
    return bench_.device().info().mode == gpu::MemoryMode::kBuffers;
  }

  // Rotates and stores `count` random tokens; returns the rotated queries as the device has them.
  gpu::ScratchBuffer store(std::uint32_t first, std::uint32_t count) {
    const std::size_t kv_values = std::size_t{c_.kv_heads} * c_.head_dim;
    const auto q = random_floats(kv_values * c_.group * count, 2, random_);
    const auto k = random_floats(kv_values * count, 2, random_);
    const auto v = random_floats(kv_values * count, 2, random_);
    std::vector<float> angles;
    gpu::fill_rope_angles(rope_, first, count, angles);
    angles.resize(angles.size() + 1);
    auto query = bench_.buffer(q);
    const auto key = bench_.buffer(k);
    const auto value = bench_.buffer(v);
    const auto angle = bench_.buffer(angles);
    gpu::AttentionShape shape = shape_;
    shape.first_position = first;
    shape.tokens = count;
    bench_.calls->rope_store(query, key, value, angle, chunks_.view, shape, c_.rotated, c_.split);
    REQUIRE(bench_.calls->take_status());
    REQUIRE(bench_.device().queue().finish() == CL_SUCCESS);
    for (std::uint32_t t = 0; t < count; ++t) {
      for (std::uint32_t h = 0; h < c_.kv_heads; ++h) {
        const std::size_t at = (std::size_t{t} * c_.kv_heads + h) * c_.head_dim;
        keys_.push_back(
            reference_rope(rope_, doubles(std::span(k).subspan(at, c_.head_dim)), first + t));
        values_.push_back(doubles(std::span(v).subspan(at, c_.head_dim)));
      }
    }
    check_queries(q, query, first, count);
    return query;
  }

  void check_queries(const std::vector<float>& q, const gpu::ScratchBuffer& query,
                     std::uint32_t first, std::uint32_t count) {
    std::vector<double> wanted;
    for (std::size_t at = 0; at < q.size(); at += c_.head_dim) {
      const auto token = static_cast<std::uint32_t>(at / c_.head_dim / shape_.heads);
      const auto head =
          reference_rope(rope_, doubles(std::span(q).subspan(at, c_.head_dim)), first + token);
      wanted.insert(wanted.end(), head.begin(), head.end());
    }
    CHECK(largest_difference(bench_.read(query, q.size()), wanted) < 2e-6 * 4);
    (void)count;
  }

  [[nodiscard]] std::vector<std::byte> chunk(std::uint32_t index) {
    if (!buffers()) return chunks_.memory[index];
    std::vector<std::byte> bytes(layout_.bytes());
    const std::size_t at = index * (bytes.size() + 64);
    REQUIRE(clEnqueueReadBuffer(bench_.device().queue()(), chunks_.view.base.buffer, CL_TRUE, at,
                                bytes.size(), bytes.data(), 0, nullptr, nullptr) == CL_SUCCESS);
    return bytes;
  }

  // What lies in the chunks: stored values where a token is, the NaNs everywhere else. The
  // reference goes on with the rounded values.
  void check_chunks() {
    const std::uint32_t end = c_.first + c_.tokens;
    for (std::uint32_t index = 0; index * 256 < end; ++index) {
      const auto bytes = chunk(index);
      std::vector<std::uint16_t> halves(bytes.size() / 2);
      std::memcpy(halves.data(), bytes.data(), bytes.size());
      double worst = 0;
      std::size_t untouched_wrong = 0;
      for (std::uint32_t t = 0; t < 256; ++t) {
        for (std::uint32_t h = 0; h < c_.kv_heads; ++h) {
          for (std::uint32_t d = 0; d < c_.head_dim; ++d) {
            const auto key = halves[chunk_index(layout_, false, h, t, d)];
            const auto value = halves[chunk_index(layout_, true, h, t, d)];
            if (index * 256 + t >= end) {
              untouched_wrong += key != 0x7F7F || value != 0x7F7F;
              continue;
            }
            const std::size_t at = std::size_t{index * 256 + t} * c_.kv_heads + h;
            worst = std::max(worst, round(keys_[at][d], key));
            worst = std::max(worst, round(values_[at][d], value));
          }
        }
      }
      CHECK(untouched_wrong == 0);
      CHECK(worst < 1.1 / 2048);  // half a step of FP16, relative to 1 or the value
    }
  }
  // Replaces `exact` by what is stored; returns how far off that is.
  static double round(double& exact, std::uint16_t stored) {
    const double value = double{half_to_float(stored)};
    const double off = std::fabs(value - exact) / std::max(1.0, std::fabs(exact));
    exact = value;
    return off;
  }

  [[nodiscard]] gpu::AttentionShape slice_shape() const {
    gpu::AttentionShape shape = shape_;
    shape.first_position = c_.first;
    shape.tokens = c_.tokens;
    const std::uint32_t chunks = (c_.first + c_.tokens + 255) / 256;
    shape.first_chunk =
        c_.window != 0 && c_.first + 1 > c_.window ? (c_.first + 1 - c_.window) / 256 : 0;
    shape.range_chunks = c_.range_chunks;
    shape.ranges = (chunks - shape.first_chunk + c_.range_chunks - 1) / c_.range_chunks;
    return shape;
  }

  [[nodiscard]] std::vector<float> attention(const gpu::ScratchBuffer& query,
                                             const std::vector<std::uint64_t>& table = {}) {
    const gpu::AttentionShape shape = slice_shape();
    if (!table.empty()) {
      chunks_.table = bench_.buffer(table);
      chunks_.view.table = &chunks_.table;
      chunks_.view.encoded = true;
    }
    const std::size_t count = std::size_t{c_.tokens} * shape.heads * c_.head_dim;
    const auto out = bench_.buffer(count);
    const auto partial = bench_.buffer(count * shape.ranges);
    const auto weights = bench_.buffer(std::size_t{c_.tokens} * shape.heads * shape.ranges * 2);
    bench_.calls->attention(query, out, partial, weights, chunks_.view, shape);
    return bench_.read(out, count);
  }

  void check_attention(const gpu::ScratchBuffer& query) {
    const gpu::AttentionShape shape = slice_shape();
    const auto found = attention(query);
    const auto q = bench_.read(query, found.size());

    std::vector<double> wanted;
    std::vector<std::vector<double>> keys;
    std::vector<std::vector<double>> values;
    std::vector<float> checked;
    for (std::uint32_t h = 0; h < shape.heads; ++h) {
      keys.clear();
      values.clear();
      for (std::size_t t = 0; t < keys_.size() / c_.kv_heads; ++t) {
        keys.push_back(keys_[t * c_.kv_heads + h / c_.group]);
        values.push_back(values_[t * c_.kv_heads + h / c_.group]);
      }
      // Long slices: every seventh token is enough.
      const std::uint32_t step = c_.tokens > 64 ? 7 : 1;
      for (std::uint32_t t = 0; t < c_.tokens; t += step) {
        const std::size_t at = (std::size_t{t} * shape.heads + h) * c_.head_dim;
        const auto one = reference_attention(
            {double{shape.scale}, double{shape.softcap}, c_.window},
            doubles(std::span(q).subspan(at, c_.head_dim)), keys, values, c_.first + t);
        wanted.insert(wanted.end(), one.begin(), one.end());
        const auto mine = std::span(found).subspan(at, c_.head_dim);
        checked.insert(checked.end(), mine.begin(), mine.end());
      }
    }
    CHECK(largest_difference(checked, wanted) < 2e-5);
  }

  KernelBench& bench_;
  const Case c_;
  Random& random_;
  const codec::Q8Codec codec_;
  actors::ChunkLayout layout_;
  gpu::AttentionShape shape_;
  actors::RopeDescription rope_;
  Chunks chunks_;
  // [token · kv_heads + kv_head], rotated.
  std::vector<std::vector<double>> keys_;
  std::vector<std::vector<double>> values_;
};

void check_all(const std::string& memory, const std::vector<Case>& cases, std::uint64_t seed) {
  INFO("seed " << seed);
  Random random(seed);
  KernelBench bench(memory);
  for (const Case& c : cases) AttentionCheck(bench, c, random).run();
}

}  // namespace

TEST_CASE("attention agrees with its twin for every head size") {
  std::vector<Case> cases;
  for (const std::uint32_t head_dim : {32U, 64U, 80U, 96U, 128U, 256U, 36U}) {
    cases.push_back({.head_dim = head_dim, .kv_heads = 2, .group = 1, .first = 0, .tokens = 33});
    cases.push_back({.head_dim = head_dim,
                     .kv_heads = 1,
                     .group = 3,
                     .first = 300,
                     .tokens = 9,
                     .rotated = head_dim});
    cases.push_back({.head_dim = head_dim,
                     .kv_heads = 1,
                     .group = 4,
                     .first = 255,
                     .tokens = 1,
                     .rotated = head_dim / 2,
                     .split = true});
  }
  check_all("", cases, 31);
}

TEST_CASE("attention agrees for every group and slice size") {
  std::vector<Case> cases;
  for (const std::uint32_t group : {1U, 2U, 3U, 4U, 5U, 8U, 16U}) {
    for (const std::uint32_t tokens : {1U, 7U, 8U}) {
      cases.push_back({.kv_heads = 2,
                       .group = group,
                       .first = 250,
                       .tokens = tokens,
                       .rotated = 64,
                       .split = group % 2 == 0});
    }
  }
  cases.push_back({.kv_heads = 3, .group = 3, .first = 100, .tokens = 256, .range_chunks = 99});
  cases.push_back({.kv_heads = 1, .group = 2, .first = 300, .tokens = 512, .range_chunks = 99});
  // Ranges of every size over a context of five chunks.
  for (const std::uint32_t range_chunks : {1U, 2U, 3U, 5U}) {
    cases.push_back(
        {.head_dim = 32, .group = 3, .first = 1100, .tokens = 3, .range_chunks = range_chunks});
  }
  check_all("", cases, 32);
}

TEST_CASE("attention agrees with windows and soft caps") {
  std::vector<Case> cases;
  for (const std::uint32_t window : {1U, 5U, 100U, 256U, 300U, 2000U}) {
    cases.push_back({.head_dim = 32,
                     .group = 2,
                     .first = 700,
                     .tokens = 9,
                     .window = window,
                     .range_chunks = 1});
    cases.push_back({.head_dim = 32,
                     .group = 1,
                     .first = 0,
                     .tokens = 300,
                     .window = window,
                     .range_chunks = 99});
    cases.push_back({.head_dim = 32, .group = 1, .first = 511, .tokens = 1, .window = window});
  }
  cases.push_back({.head_dim = 64, .group = 2, .first = 40, .tokens = 9, .softcap = 2.5F});
  check_all("", cases, 33);
}

TEST_CASE("attention over encoded chunks is that over decoded ones, bit for bit") {
  if (!have_cpu_kernels()) return;  // no processor for them
  const auto width = GENERATE(0U, 8U);
  const std::uint64_t seed = 35;
  INFO("seed " << seed << ", width " << width);
  std::vector<Case> cases;
  for (const std::uint32_t head_dim : {32U, 64U, 80U, 96U, 128U, 256U, 36U}) {
    for (const std::uint32_t tokens : {1U, 8U, 200U}) {
      cases.push_back({.head_dim = head_dim,
                       .kv_heads = head_dim < 128 ? 3U : 2U,
                       .group = 3,
                       .first = 780,
                       .tokens = tokens,
                       .range_chunks = tokens > 16 ? 99U : 2U});
    }
  }
  for (const std::uint32_t group : {1U, 2U, 5U, 8U}) {
    for (const std::uint32_t tokens : {1U, 2U, 3U, 5U, 9U}) {
      cases.push_back({.kv_heads = 2, .group = group, .first = 512, .tokens = tokens});
    }
  }
  for (const std::uint32_t window : {5U, 100U, 256U, 300U, 777U}) {
    cases.push_back({.head_dim = 64, .group = 2, .first = 800, .tokens = 9, .window = window});
    cases.push_back({.head_dim = 96, .first = 799, .tokens = 1, .window = window, .softcap = 2});
  }
  Random random(seed);
  KernelBench bench(Setting("", "cpu", false, width));
  for (const Case& c : cases) AttentionCheck(bench, c, random).run_encoded();
}

TEST_CASE("attention agrees when chunks are parts of a buffer") {
  check_all("buffers",
            {{.head_dim = 64, .kv_heads = 2, .group = 3, .first = 250, .tokens = 9, .rotated = 64},
             {.head_dim = 80, .kv_heads = 1, .group = 1, .first = 600, .tokens = 1},
             {.head_dim = 32,
              .kv_heads = 2,
              .group = 2,
              .first = 200,
              .tokens = 100,
              .range_chunks = 99}},
            34);
}
