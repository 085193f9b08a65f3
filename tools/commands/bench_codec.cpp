// `mzcache bench codec`: KV codecs on one core, in bytes of FP16 per second, over a working set far
// larger than the caches, beside memcpy of the same bytes in the same run.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "codec/chunk_values.h"
#include "codec/entropy.h"
#include "codec/half.h"
#include "codec/packed.h"
#include "codec/q4.h"
#include "codec/q8.h"
#include "codec/registry.h"
#include "command.h"
#include "commands/median.h"
#include "gpu/unit_memory_pages.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

using CodecPointer = std::shared_ptr<const actors::KvCodec>;

constexpr std::uint64_t kWorkingSetBytes = std::uint64_t{192} << 20;
constexpr std::uint32_t kContentsMax = 16;  // chunks that differ
constexpr std::uint64_t kSeed = 7;

struct CodecBenchOptions {
  CommonOptions common;
  std::string codecs = "none,q8,q4,packed,entropy,zstd,lz4,split-zstd";
  std::string kv_heads = "8";
  std::string head_dim = "64";
  std::string repeat = "5";
  std::string simd;
  bool json = false;
};

struct BenchRow {
  std::string codec;
  std::string simd;
  double saved_percent = 0;
  double encode_bytes_per_s = 0;
  double decode_bytes_per_s = 0;
  double memcpy_bytes_per_s = 0;
};

gpu::PageReservation populated(std::uint64_t bytes) {
  auto pages = value_or_throw(gpu::PageReservation::create(bytes));
  if (auto ok = gpu::populate_pages(pages.data(), pages.bytes(), true, {}); !ok) {
    throw Exception(ok.error());
  }
  return pages;
}

// Chunks that are like real ones: channels of their own mean and spread under a rotation, a few of
// K far out, tokens of their own size; and the profile that fits them.
class Corpus {
 public:
  explicit Corpus(const actors::ChunkLayout& layout)
      : layout_(layout),
        chunks_(std::max<std::uint64_t>(kContentsMax, kWorkingSetBytes / layout.bytes())),
        plain_(populated(chunks_ * layout.bytes())),
        other_(populated(chunks_ * layout.bytes())) {
    rope_.dimensions = layout.head_dim / 2 * 2;
    fill();
    make_profile();
  }

  [[nodiscard]] std::uint64_t chunks() const noexcept { return chunks_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return chunks_ * layout_.bytes(); }
  [[nodiscard]] const actors::ChunkLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const std::shared_ptr<const codec::KvProfile>& profile() const { return profile_; }
  [[nodiscard]] actors::ChunkView view(std::uint64_t chunk) const {
    return {0,        position(chunk), layout_.tokens,
            &layout_, &rope_,          {plain_.data() + chunk * layout_.bytes(), layout_.bytes()}};
  }
  [[nodiscard]] actors::MutableChunkView target(std::uint64_t chunk) const {
    return {0,        position(chunk), layout_.tokens,
            &layout_, &rope_,          {other_.data() + chunk * layout_.bytes(), layout_.bytes()}};
  }

 private:
  // Never the first chunk of a sequence.
  [[nodiscard]] std::uint32_t position(std::uint64_t chunk) const {
    return static_cast<std::uint32_t>(chunk % kContentsMax + 1) * layout_.tokens;
  }
  void fill();
  void make_profile();

  actors::ChunkLayout layout_;
  actors::RopeDescription rope_;
  std::uint64_t chunks_;
  gpu::PageReservation plain_;
  gpu::PageReservation other_;
  std::shared_ptr<const codec::KvProfile> profile_;
};

void Corpus::fill() {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  const std::uint32_t width = layout_.kv_heads * layout_.head_dim;
  std::vector<double> mean(width);
  std::vector<double> spread(width);
  for (std::uint32_t c = 0; c < width; ++c) {
    spread[c] = std::exp(0.4 * normal(random)) * (c % 29 == 3 ? 4 : 1);
    mean[c] = spread[c] * normal(random);
  }
  for (std::uint64_t chunk = 0; chunk < kContentsMax; ++chunk) {
    std::byte* const bytes = plain_.data() + chunk * layout_.bytes();
    std::vector<double> row(width);
    for (std::uint32_t token = 0; token < layout_.tokens; ++token) {
      for (std::uint32_t c = 0; c < width; ++c) row[c] = mean[c] + spread[c] * normal(random);
      for (std::uint32_t c = 0; c + 1 < width; c += 2) {
        const double pair = c % layout_.head_dim;
        const double angle =
            (position(chunk) + token) * std::pow(double{rope_.base}, -pair / rope_.dimensions);
        const double a = row[c] * std::cos(angle) - row[c + 1] * std::sin(angle);
        row[c + 1] = row[c] * std::sin(angle) + row[c + 1] * std::cos(angle);
        row[c] = a;
      }
      const double size = std::exp(0.3 * normal(random));
      for (std::uint32_t c = 0; c < width; ++c) {
        codec::store_half(bytes + 2 * codec::k_index(layout_, token, c),
                          codec::float_to_half(static_cast<float>(row[c])));
        codec::store_half(
            bytes + 2 * (layout_.values_per_half() + codec::v_index(layout_, token, c)),
            codec::float_to_half(static_cast<float>(size * normal(random))));
      }
    }
  }
  for (std::uint64_t chunk = kContentsMax; chunk < chunks_; ++chunk) {
    std::memcpy(plain_.data() + chunk * layout_.bytes(),
                plain_.data() + chunk % kContentsMax * layout_.bytes(), layout_.bytes());
  }
}

void Corpus::make_profile() {
  codec::ProfileBuilder builder(layout_, 1);
  for (std::uint64_t chunk = 0; chunk < kContentsMax; ++chunk) builder.add_chunk(view(chunk), 4);
  // Queries under which a typical channel's spread is three to four of the default steps.
  const std::vector<float> energy(std::size_t{layout_.kv_heads} * layout_.head_dim, 2.5F);
  builder.add_queries(0, energy, 1, 1, rope_);
  profile_ = std::make_shared<const codec::KvProfile>(value_or_throw(builder.build(1)));
}

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

CodecPointer make(const std::string& name, const codec::SimdVariant& simd) {
  using Preset = codec::EntropyCodec::Preset;
  if (name == "q8") return std::make_shared<codec::Q8Codec>(*simd.groups);
  if (name == "q4") return std::make_shared<codec::Q4Codec>(*simd.groups);
  if (name == "packed") return std::make_shared<codec::PackedCodec>(simd);
  if (name == "entropy") return std::make_shared<codec::EntropyCodec>(Preset::kDefault, simd);
  if (name == "entropy:near") return std::make_shared<codec::EntropyCodec>(Preset::kNear, simd);
  if (name == "entropy:small") return std::make_shared<codec::EntropyCodec>(Preset::kSmall, simd);
  if (name == "entropy:free") return std::make_shared<codec::EntropyCodec>(Preset::kFree, simd);
  return value_or_throw(codec::make_codec(name));
}

BenchRow measure(const std::string& name, const codec::SimdVariant& simd, const Corpus& corpus,
                 std::uint32_t repeat) {
  const CodecPointer codec = make(name, simd);
  if (const auto* profiled = dynamic_cast<const codec::ProfiledCodec*>(codec.get())) {
    profiled->adopt(corpus.profile());
  }
  const std::uint64_t bound =
      actors::align_up(codec->bound(corpus.layout(), corpus.layout().tokens), 64);
  const gpu::PageReservation encoded = populated(corpus.chunks() * bound);
  std::vector<std::byte> scratch(codec->scratch_bytes(corpus.layout()));
  std::vector<std::uint64_t> sizes(corpus.chunks());
  std::vector<double> encode_s;
  std::vector<double> decode_s;
  std::vector<double> copy_s;
  for (std::uint32_t i = 0; i < repeat; ++i) {
    encode_s.push_back(seconds_of([&] {
      for (std::uint64_t chunk = 0; chunk < corpus.chunks(); ++chunk) {
        sizes[chunk] = value_or_throw(
            codec->encode(corpus.view(chunk), {encoded.data() + chunk * bound, bound}, scratch));
      }
    }));
    decode_s.push_back(seconds_of([&] {
      for (std::uint64_t chunk = 0; chunk < corpus.chunks(); ++chunk) {
        const auto decoded = codec->decode({encoded.data() + chunk * bound, sizes[chunk]},
                                           corpus.target(chunk), scratch);
        if (!decoded) throw Exception(decoded.error());
      }
    }));
    copy_s.push_back(seconds_of([&] {
      for (std::uint64_t chunk = 0; chunk < corpus.chunks(); ++chunk) {
        std::memcpy(corpus.target(chunk).bytes.data(), corpus.view(chunk).bytes.data(),
                    corpus.layout().bytes());
      }
    }));
  }
  std::uint64_t total = 0;
  for (const std::uint64_t size : sizes) total += size;
  const auto bytes = static_cast<double>(corpus.bytes());
  return {name,
          simd.name,
          100 * (1 - static_cast<double>(total) / bytes),
          bytes / median(encode_s),
          bytes / median(decode_s),
          bytes / median(copy_s)};
}

std::vector<const codec::SimdVariant*> wanted_simd(const CodecBenchOptions& options) {
  std::array<const codec::SimdVariant*, codec::kSimdVariantsMax> found{};
  const std::size_t count = codec::simd_variants(found.data());
  std::vector<const codec::SimdVariant*> wanted;
  std::string names = "all";
  for (std::size_t i = 0; i < count; ++i) {
    names += std::string(", ") + found.at(i)->name;
    if (options.simd == "all" || options.simd == found.at(i)->name) wanted.push_back(found.at(i));
  }
  if (options.simd.empty()) return {&codec::simd()};
  if (wanted.empty()) refuse("--simd", options.simd, names);
  return wanted;
}

std::vector<std::string> wanted_codecs(const CodecBenchOptions& options) {
  Config config = options.common.config();
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= options.codecs.size();) {
    const std::size_t end = std::min(options.codecs.find(',', begin), options.codecs.size());
    names.push_back(options.codecs.substr(begin, end - begin));
    set_from_flag(config, "--codec", "memory.codec", names.back());
    begin = end + 1;
  }
  return names;
}

int run(const CodecBenchOptions& options) {
  const auto repeat =
      static_cast<std::uint32_t>(integer_value("--repeat", options.repeat, 1, 1000));
  actors::ChunkLayout layout;
  layout.kv_heads =
      static_cast<std::uint32_t>(integer_value("--kv-heads", options.kv_heads, 1, 1024));
  layout.head_dim =
      static_cast<std::uint32_t>(integer_value("--head-dim", options.head_dim, 1, 1024));
  const auto variants = wanted_simd(options);
  const auto codecs = wanted_codecs(options);
  const Corpus corpus(layout);
  Json rows = Json::array();
  if (!options.json) {
    std::printf("%-14s %-7s %8s %12s %12s %12s\n", "codec", "simd", "saved %", "encode GB/s",
                "decode GB/s", "memcpy GB/s");
  }
  for (const std::string& name : codecs) {
    for (const codec::SimdVariant* simd : variants) {
      const BenchRow row = measure(name, *simd, corpus, repeat);
      rows.push_back({{"codec", row.codec},
                      {"simd", row.simd},
                      {"saved_percent", row.saved_percent},
                      {"encode_bytes_per_s", row.encode_bytes_per_s},
                      {"decode_bytes_per_s", row.decode_bytes_per_s},
                      {"memcpy_bytes_per_s", row.memcpy_bytes_per_s}});
      if (options.json) continue;
      std::printf("%-14s %-7s %8.2f %12.2f %12.2f %12.2f\n", row.codec.c_str(), row.simd.c_str(),
                  row.saved_percent, row.encode_bytes_per_s / 1e9, row.decode_bytes_per_s / 1e9,
                  row.memcpy_bytes_per_s / 1e9);
      std::fflush(stdout);
    }
  }
  if (options.json) {
    print_json({{"rows", rows}, {"machine", {{"cores", ::sysconf(_SC_NPROCESSORS_ONLN)}}}});
  }
  return kExitDone;
}

}  // namespace

void add_bench_codec(CommandLine& group, Commands& commands) {
  auto options = std::make_shared<CodecBenchOptions>();
  CommandLine& command =
      group.add_subcommand("codec", "Encoding and decoding on one core, beside memcpy");
  command.add_option("--codec", options->codecs, "Names, separated by commas")
      .show_default()
      .type_name("LIST");
  command.add_option("--kv-heads", options->kv_heads, "Of a chunk").show_default().type_name("N");
  command.add_option("--head-dim", options->head_dim, "Of a chunk").show_default().type_name("N");
  command.add_option("--simd", options->simd, "scalar, avx2, avx512, neon or all; best by default")
      .type_name("NAME");
  command.add_option("--repeat", options->repeat, "Runs; the median counts")
      .show_default()
      .type_name("N");
  options->common.add_without_timelines_to(command);
  command.add_flag("--json", options->json, "One JSON object on stdout");
  command.footer("Example:\n  mzcache bench codec --codec q8,entropy --simd all --repeat 5");
  commands.push_back({&command, [options] { return run(*options); }});
}

}  // namespace mzcache::tools
