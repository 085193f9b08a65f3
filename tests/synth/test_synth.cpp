#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "engine/gguf.h"
#include "engine/inspect.h"
#include "support/catch.h"
#include "synth/shapes.h"
#include "synth/synth.h"
#include "synth/vocabulary.h"
#include "synth/weights.h"

using namespace mzcache;
using namespace mzcache::synth;
using actors::TensorType;

namespace {

// An empty folder that is gone again with its scope.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("mzcache-synth-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const char* name) const { return (path_ / name).string(); }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::string read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

float half_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -24)
                              : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <class T>
T at(const std::vector<std::byte>& bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// The types' definitions, value by value.
std::vector<float> dequantise(TensorType type, const std::vector<std::byte>& bytes) {
  std::vector<float> out;
  const auto traits = actors::tensor_type_traits(type);
  for (std::size_t block = 0; block < bytes.size(); block += traits.block_bytes) {
    const auto half = [&](std::size_t i) {
      return half_value(at<std::uint16_t>(bytes, block + i));
    };
    const auto nibble = [&](std::size_t head, std::size_t i) {
      const auto byte = at<std::uint8_t>(bytes, block + head + i % 16);
      return static_cast<float>(i < 16 ? byte & 15 : byte >> 4);
    };
    for (std::size_t i = 0; i < traits.block_values; ++i) {
      switch (type) {
        case TensorType::kF32:
          out.push_back(at<float>(bytes, block));
          break;
        case TensorType::kF16:
          out.push_back(half(0));
          break;
        case TensorType::kBF16: {
          const std::uint32_t bits = std::uint32_t{at<std::uint16_t>(bytes, block)} << 16;
          float value = 0;
          std::memcpy(&value, &bits, sizeof(value));
          out.push_back(value);
          break;
        }
        case TensorType::kQ8_0:
          out.push_back(half(0) * at<std::int8_t>(bytes, block + 2 + i));
          break;
        case TensorType::kQ4_0:
          out.push_back(half(0) * (nibble(2, i) - 8));
          break;
        default:
          out.push_back(half(0) * nibble(4, i) + half(2));
          break;
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("every shape and type has a header that parses, and sizes as published") {
  for (const auto& arch : words(architecture_names())) {
    for (const auto& type : words(type_names())) {
      INFO(arch << " " << type);
      const auto header = synth_header({arch, type, "unused", 1});
      if (!header) FAIL(header.error().message());
      const auto file = engine::GgufFile::parse("synth.gguf", header->bytes, header->file_bytes);
      if (!file) FAIL(file.error().message());
      const std::string prefix = file->text("general.architecture")->value() + ".";
      const auto vocabulary = file->integer(prefix + "vocab_size")->value();
      CHECK((*file->texts("tokenizer.ggml.tokens"))->size() == vocabulary);
      CHECK(file->integers("tokenizer.ggml.token_type")->size() == vocabulary);
      CHECK(file->tensor("token_embd.weight")->dimensions[1] == vocabulary);
      CHECK(file->tensors().back().file_offset + file->tensors().back().bytes <=
            header->file_bytes);
      std::uint64_t parameters = 0;
      for (const auto& tensor : file->tensors()) {
        std::uint64_t values = 1;
        for (const auto size : tensor.dimensions) values *= size;
        parameters += values;
      }
      // The names say how many (gemma2-2b counts without its embedding).
      if (arch == "qwen3-0.6b") CHECK(parameters == 596049920);
      if (arch == "smollm2-135m") CHECK(parameters == 134515008);
      if (arch == "llama3.2-1b") CHECK(parameters == 1235814400 + 32);
      if (file->text("general.architecture")->value() == "qwen3") break;  // one type is enough
    }
  }
}

// Table 1 of the paper in its own numbers. It says GB throughout; weights are decimal gigabytes but
// for Gemma 2, whose cell is in GiB, and the KV caches are all in GiB (docs/models.md).
TEST_CASE("weights and KV of the paper's models are as large as its Table 1 says") {
  constexpr double kGb = 1e9;
  constexpr double kGib = 1024.0 * 1024 * 1024;
  struct Row {
    const char* arch;
    double weights, weights_unit;
    std::uint32_t context;
    double kv;  // GiB
  };
  const Row rows[] = {{"exaone4-1.2b", 2.6, kGb, 65536, 3.8},
                      {"gemma2-2b", 4.9, kGib, 8192, 0.8},
                      {"llama3.2-1b", 2.5, kGb, 131072, 4.0},
                      {"qwen3-0.6b", 1.2, kGb, 32768, 3.5},
                      {"qwen3-1.7b", 3.5, kGb, 32768, 3.5}};
  for (const Row& row : rows) {
    INFO(row.arch);
    const auto header = synth_header({row.arch, "f16", "unused", 1});
    REQUIRE(header.ok());
    const auto file = engine::GgufFile::parse("synth.gguf", header->bytes, header->file_bytes);
    REQUIRE(file.ok());
    const auto info = engine::inspect_model(*file);
    REQUIRE(info.ok());
    const double weights = static_cast<double>(info->tensor_bytes) / row.weights_unit;
    const double kv = static_cast<double>(*info->kv_bytes_per_token) * row.context / kGib;
    CHECK(weights == Approx(row.weights).epsilon(0.03));
    CHECK(kv == Approx(row.kv).epsilon(0.03));
  }
}

TEST_CASE("vocabularies: bytes, merges and special tokens") {
  for (const Shape& shape : shapes()) {
    INFO(shape.name);
    const Vocabulary vocabulary = make_vocabulary(shape.chat, shape.vocabulary);
    REQUIRE(vocabulary.tokens.size() == shape.vocabulary);
    REQUIRE(vocabulary.types.size() == shape.vocabulary);
    const std::set<std::string> unique(vocabulary.tokens.begin(), vocabulary.tokens.end());
    CHECK(unique.size() == shape.vocabulary);
    bool all_known = true;
    for (const auto& merge : vocabulary.merges) {
      const auto space = merge.find(' ');
      const std::string left = merge.substr(0, space);
      const std::string right = merge.substr(space + 1);
      all_known = all_known && unique.count(left) != 0 && unique.count(right) != 0 &&
                  unique.count(left + right) != 0;
    }
    CHECK(all_known);
    CHECK(vocabulary.types[vocabulary.bos] == 3);
    CHECK(vocabulary.types[vocabulary.eos] == 3);
    CHECK(vocabulary.types[vocabulary.end_of_turn] == 3);
    CHECK(vocabulary.types[0] == 1);
  }
}

TEST_CASE("weights have the deviation asked for, in every type") {
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16,
                                TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_1}) {
    const auto traits = actors::tensor_type_traits(type);
    INFO(traits.name);
    const double wanted = 0.03;
    WeightSource source(type, wanted, 42);
    std::vector<std::byte> bytes(65536 / traits.block_values * traits.block_bytes);
    source.fill(bytes);
    const std::vector<float> values = dequantise(type, bytes);
    double sum = 0;
    double squares = 0;
    for (const float value : values) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    const double mean = sum / static_cast<double>(values.size());
    CHECK(std::abs(mean) < wanted / 50);
    CHECK(std::sqrt(squares / static_cast<double>(values.size())) == Approx(wanted).epsilon(0.02));
  }
}

TEST_CASE("half and bfloat rounding") {
  CHECK(half_bits(1.0F) == 0x3C00);
  CHECK(half_bits(-2.0F) == 0xC000);
  CHECK(half_bits(65504.0F) == 0x7BFF);
  CHECK(half_bits(1e6F) == 0x7C00);
  CHECK(half_bits(0x1p-24F) == 1);
  CHECK(half_bits(1.0F + 0x1p-11F) == 0x3C00);  // a tie goes to even
  CHECK(half_bits(1.0F + 3 * 0x1p-11F) == 0x3C02);
  CHECK(bfloat_bits(1.0F) == 0x3F80);
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {
    if (half_bits(half_value(static_cast<std::uint16_t>(bits))) != bits) FAIL(bits);
  }
}

TEST_CASE("a written file is a model, and the same bytes for the same seed") {
  const Folder folder;
  const std::string path = folder.file("a.gguf");
  const auto done = synthesize({"smollm2-135m", "q4_0", path, 3});
  if (!done) FAIL(done.error().message());
  const auto file = engine::GgufFile::open(path);
  if (!file) FAIL(file.error().message());
  const auto model = engine::describe_model(*file);
  if (!model) FAIL(model.error().message());
  CHECK(model->layers == 30);
  CHECK(model->head.tied);
  const std::string first = read(path);
  CHECK(first.size() == file->file_bytes());
  // Replaces what is there; another seed gives other weights.
  REQUIRE(synthesize({"smollm2-135m", "q4_0", path, 3}).ok());
  CHECK(read(path) == first);
  REQUIRE(synthesize({"smollm2-135m", "q4_0", path, 4}).ok());
  CHECK(read(path) != first);
  CHECK(folder.entries() == 1);
}

TEST_CASE("bad options and full disks are clear errors and leave nothing behind") {
  const Folder folder;
  const std::string path = folder.file("a.gguf");
  const auto arch = synthesize({"gpt5", "f16", path, 1});
  REQUIRE_FALSE(arch.ok());
  CHECK(arch.error().code == ErrorCode::kBadArgument);
  CHECK(arch.error().message().find("qwen3-0.6b") != std::string::npos);
  const auto type = synthesize({"smollm2-135m", "q2_k", path, 1});
  REQUIRE_FALSE(type.ok());
  CHECK(type.error().message().find("q8_0") != std::string::npos);
  const auto nowhere = synthesize({"smollm2-135m", "q4_0", "/nowhere/a.gguf", 1});
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().message().find("/nowhere/a.gguf") != std::string::npos);
  CHECK_FALSE(synthesize({"smollm2-135m", "q4_0", "/tmp", 1}).ok());

  // A limit on file sizes stands in for a full disk.
  std::ofstream(path) << "older";
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  auto* old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, old.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto full = synthesize({"smollm2-135m", "q4_0", path, 1});
  (void)::setrlimit(RLIMIT_FSIZE, &old);
  (void)std::signal(SIGXFSZ, old_handler);
  REQUIRE_FALSE(full.ok());
  CHECK(full.error().code == ErrorCode::kNoSpace);
  CHECK(full.error().message().find(" bytes") != std::string::npos);
  CHECK(read(path) == "older");
  CHECK(folder.entries() == 1);
}
