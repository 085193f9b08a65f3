#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/gguf.h"
#include "engine/gguf_text.h"
#include "support/catch.h"
#include "support/gguf_builder.h"
#include "support/gguf_damage.h"

using namespace mzcache;
using namespace mzcache::engine;
using test::BuiltFile;
using test::raw;
using test::tiny_llama;

namespace {

Result<GgufFile> parse(const std::string& bytes) {
  return GgufFile::parse("damaged.gguf", bytes, bytes.size());
}

// A file that is gone again with its scope.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes)
      : path_((std::filesystem::temp_directory_path() /
               ("mzcache-gguf-" + std::to_string(::getpid()) + ".gguf"))
                  .string()) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("a whole file parses, versions 2 and 3") {
  for (const std::uint32_t version : {2U, 3U}) {
    BuiltFile built = tiny_llama();
    built.version = version;
    const auto file = parse(built.bytes());
    REQUIRE(file.ok());
    CHECK(file->version() == version);
    CHECK(file->alignment() == 32);
    CHECK(file->tensors().size() == built.tensors.size());
    CHECK(file->text("general.name")->value() == "tiny");
    CHECK(file->integer("llama.block_count")->value() == 2);
    CHECK(file->number("llama.rope.freq_base")->value() == 5000.0);
    CHECK(file->boolean("tokenizer.ggml.add_bos_token")->value());
    CHECK((*file->texts("tokenizer.ggml.tokens"))->at(47) == "t47");
    CHECK(file->integers("tokenizer.ggml.token_type")->size() == 48);
    const GgufTensor* q = file->tensor("blk.0.attn_q.weight");
    REQUIRE(q != nullptr);
    CHECK(q->bytes == 64U * 64 * 4);
    CHECK(q->file_offset % 32 == 0);
    CHECK(file->tensor("nothing") == nullptr);
  }
}

TEST_CASE("every scalar and array type is read, signs kept") {
  BuiltFile built = tiny_llama();
  built.add("u8", 0, raw<std::uint8_t>(200));
  built.add("i8", 1, raw<std::int8_t>(-100));
  built.add("u16", 2, raw<std::uint16_t>(60000));
  built.add("i16", 3, raw<std::int16_t>(-30000));
  built.add("i32", 5, raw<std::int32_t>(-5));
  built.add("u64", 10, raw(~std::uint64_t{0}));
  built.add("i64", 11, raw<std::int64_t>(-7));
  built.add("f64", 12, raw(2.5));
  built.add("a8", 9, raw<std::uint32_t>(0) + raw<std::uint64_t>(2) + "\x01\xFF");
  built.add("af", 9, raw<std::uint32_t>(6) + raw<std::uint64_t>(1) + raw(1.5F));
  built.add("ab", 9, raw<std::uint32_t>(7) + raw<std::uint64_t>(2) + std::string("\0\1", 2));
  built.add("empty", 9, raw<std::uint32_t>(8) + raw<std::uint64_t>(0));
  const auto file = parse(built.bytes());
  REQUIRE(file.ok());
  CHECK(file->integer("u8")->value() == 200);
  CHECK(std::get<std::int64_t>(file->metadata().at("i8")) == -100);
  CHECK(file->integer("u16")->value() == 60000);
  CHECK(std::get<std::int64_t>(file->metadata().at("i16")) == -30000);
  CHECK(file->number("i32")->value() == -5.0);
  CHECK(file->integer("u64")->value() == ~std::uint64_t{0});
  CHECK(std::get<std::int64_t>(file->metadata().at("i64")) == -7);
  CHECK(file->number("f64")->value() == 2.5);
  CHECK(*file->integers("a8") == std::vector<std::int64_t>{1, 255});
  CHECK(*file->numbers("af") == std::vector<double>{1.5});
  CHECK(*file->numbers("a8") == std::vector<double>{1, 255});
  CHECK(std::get<std::vector<bool>>(file->metadata().at("ab")) == std::vector<bool>{false, true});
  CHECK((*file->texts("empty"))->empty());
}

TEST_CASE("look-ups: missing keys are empty, other types are named") {
  const auto file = parse(tiny_llama().bytes());
  REQUIRE(file.ok());
  CHECK_FALSE(file->text("x")->has_value());
  CHECK_FALSE(file->integer("x")->has_value());
  CHECK_FALSE(file->number("x")->has_value());
  CHECK_FALSE(file->boolean("x")->has_value());
  CHECK((*file->texts("x"))->empty());
  CHECK(file->integers("x")->empty());
  CHECK(file->numbers("x")->empty());
  const auto wrong = file->text("llama.block_count");
  REQUIRE_FALSE(wrong.ok());
  for (const char* word : {"damaged.gguf", "llama.block_count", "unsigned integer", "string"}) {
    CHECK(wrong.error().message().find(word) != std::string::npos);
  }
  CHECK_FALSE(file->integer("general.name").ok());
  CHECK_FALSE(file->number("general.name").ok());
  CHECK_FALSE(file->boolean("general.name").ok());
  CHECK_FALSE(file->texts("general.name").ok());
  CHECK_FALSE(file->integers("general.name").ok());
  CHECK_FALSE(file->numbers("tokenizer.ggml.tokens").ok());
}

TEST_CASE("every damaged file is a clear error") {
  const auto files = test::damaged_files();
  CHECK(files.size() > 200);
  for (const auto& damaged : files) {
    INFO(damaged.name);
    const auto file = parse(damaged.bytes);
    if (file.ok() != damaged.parses) {
      FAIL_CHECK((file.ok() ? "parsed" : file.error().message()));
      continue;
    }
    Error error;
    if (damaged.parses) {
      const auto model = describe_model(*file);
      REQUIRE_FALSE(model.ok());
      error = model.error();
    } else {
      error = file.error();
    }
    const std::string message = error.message();
    INFO(message);
    CHECK((error.code == ErrorCode::kBadFormat || error.code == ErrorCode::kUnsupported));
    CHECK(find_invalid_utf8(message) == std::string::npos);
    CHECK(message.size() < 1000);
    for (const auto& word : damaged.says) {
      INFO("wanted: " << word);
      CHECK(message.find(word) != std::string::npos);
    }
  }
}

TEST_CASE("open says the same of damaged files as parse") {
  for (const auto& damaged : test::damaged_files()) {
    INFO(damaged.name);
    const TemporaryFile file(damaged.bytes);
    const auto opened = GgufFile::open(file.path());
    CHECK(opened.ok() == damaged.parses);
    if (!opened) {
      CHECK(opened.error().message().find(file.path()) != std::string::npos);
      const auto parsed = GgufFile::parse(file.path(), damaged.bytes, damaged.bytes.size());
      REQUIRE_FALSE(parsed.ok());
      CHECK(opened.error().message() == parsed.error().message());
    }
  }
}

TEST_CASE("open reads a header longer than its first read") {
  BuiltFile built = tiny_llama();
  std::vector<std::string> texts(60000, std::string(60, 'x'));
  built.add("long", 9, test::raw_string_array(texts));
  const std::string bytes = built.bytes();
  const TemporaryFile file(bytes);
  const auto opened = GgufFile::open(file.path());
  REQUIRE(opened.ok());
  CHECK((*opened->texts("long"))->size() == 60000);
  CHECK(opened->file_bytes() == bytes.size());
  // The same header alone is enough to parse; less is not.
  const std::string header = built.header();
  CHECK(GgufFile::parse("f", header, bytes.size()).ok());
  const auto cut = GgufFile::parse("f", header.substr(0, header.size() - 1), bytes.size());
  REQUIRE_FALSE(cut.ok());
  CHECK(cut.error().message().find("header bytes given") != std::string::npos);
}

TEST_CASE("what is not a file is an error that names it") {
  const auto missing = GgufFile::open("/nowhere/model.gguf");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().message().find("/nowhere/model.gguf") != std::string::npos);
  const auto folder = GgufFile::open("/");
  REQUIRE_FALSE(folder.ok());
  CHECK(folder.error().message().find("not a regular file") != std::string::npos);
}

TEST_CASE("identity changes with the header and with the file's size") {
  const std::string bytes = tiny_llama().bytes();
  BuiltFile other = tiny_llama();
  other.key("general.name").value = test::raw_string("tinY");
  const auto one = parse(bytes);
  CHECK(one->identity() == parse(bytes)->identity());
  CHECK(one->identity() != parse(other.bytes())->identity());
  CHECK(one->identity() != parse(bytes + std::string(32, '\0'))->identity());
}
