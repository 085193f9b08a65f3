// The configuration: every key of the file, what is refused, and how the error reads.
#include <unistd.h>

#include <fstream>
#include <functional>

#include "engine/config_codecs.h"
#include "engine/config_keys.h"
#include "mzcache/config.h"
#include "support/catch.h"

namespace {

using mzcache::Config;
using mzcache::ErrorCode;
using mzcache::Exception;

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    static int count = 0;
    path_ =
        "/tmp/mzcache-config-" + std::to_string(getpid()) + "-" + std::to_string(count++) + ".toml";
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { unlink(path_.c_str()); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Config load(const std::string& text) {
  const ConfigFile file(text);
  return Config::load(file.path());
}

Config with(const std::string& assignment) {
  Config config;
  config.set(assignment);
  return config;
}

mzcache::Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Exception& exception) {
    return exception.error();
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The contract's file, every key at its default.
constexpr const char* kDefaults = R"(
[placement]
storage_reader = "big"
storage_writer = "little"
decompressor = { cores = "big", workers = "auto" }
compressor   = { cores = "middle", workers = "auto" }
allocator    = { cores = "middle", workers = "auto" }
prefill = "any"
[memory]
codec = "q8"
storage_codec = "none"
swap_directory = "/var/tmp"
swap_file_max = "8GiB"
memory_swap_max = "100%"
keep_compressed = 0
compressed_attention = false
free_out_of_window = true
huge_pages = true
[policy]
order = "backward-out"
seed = 1
paths = "hybrid"
recompute = false
cpu_price = "auto"
resume_delay = "2s"
[overlap]
allocation = true
reload = true
prefill = true
[storage]
block = "1MiB"
depth = 8
direct = true
engine = "io_uring"
limit = ""
[profile]
file = ""
[device]
name = ""
kernels = "auto"
pin_workers = "auto"
activations = "auto"
[trace]
file = ""
)";

}  // namespace

TEST_CASE("the documented defaults are accepted and are the defaults") {
  const Config read = load(kDefaults);
  const Config built;
  CHECK(read.placement.storage_reader.cores == built.placement.storage_reader.cores);
  CHECK(read.placement.storage_writer.cores == built.placement.storage_writer.cores);
  CHECK(read.placement.decompressor.cores == built.placement.decompressor.cores);
  CHECK(read.placement.decompressor.workers == 0);
  CHECK(read.memory.codec == built.memory.codec);
  CHECK(read.memory.storage_codec == built.memory.storage_codec);
  CHECK(read.memory.swap_directory == built.memory.swap_directory);
  CHECK(read.memory.swap_file_max == built.memory.swap_file_max);
  CHECK(read.memory.memory_swap_max_percent == built.memory.memory_swap_max_percent);
  CHECK(read.memory.memory_swap_max_bytes == built.memory.memory_swap_max_bytes);
  CHECK(read.policy.order == built.policy.order);
  CHECK(read.policy.seed == built.policy.seed);
  CHECK(read.policy.cpu_price == built.policy.cpu_price);
  CHECK(read.policy.resume_delay_s == built.policy.resume_delay_s);
  CHECK(read.storage.block == built.storage.block);
  CHECK(read.storage.depth == built.storage.depth);
  CHECK(read.storage.limit_bytes_per_s == 0);
  CHECK(read.device.kernels == built.device.kernels);
  CHECK(read.device.pin_workers == built.device.pin_workers);
  CHECK(load("").memory.codec == "q8");
}

TEST_CASE("every key takes another value, from the file and from an assignment") {
  const Config file = load(R"(
[placement]
storage_reader = [6, 7]
storage_writer = "any"
decompressor = { cores = [0, 1], workers = 2 }
allocator = { workers = 3 }
compressor = "little"
[memory]
codec = "none"
swap_file_max = 1048576
memory_swap_max = "64MiB"
huge_pages = false
[policy]
order = "random-out"
seed = 99
paths = "storage"
cpu_price = 0.5
resume_delay = "250ms"
[overlap]
allocation = false
reload = false
prefill = false
[storage]
block = "256KiB"
depth = 16
direct = false
engine = "threads"
limit = "400MiB/s"
[profile]
read_bytes_per_s = 2e9
decode_bytes_per_s = "6GB/s"
storage_decode_bytes_per_s = "2GB/s"
allocate_bytes_per_s = 20000000000
[device]
name = "pthread"
kernels = "portable"
pin_workers = true
activations = "float"
[trace]
file = "t.json"
)");
  CHECK(file.placement.storage_reader.core_ids == std::vector<std::uint32_t>{6, 7});
  CHECK(file.placement.storage_writer.cores == "any");
  CHECK(file.placement.decompressor.core_ids == std::vector<std::uint32_t>{0, 1});
  CHECK(file.placement.decompressor.workers == 2);
  CHECK(file.placement.allocator.cores == "middle");
  CHECK(file.placement.allocator.workers == 3);
  CHECK(file.placement.compressor.cores == "little");
  CHECK(file.memory.codec == "none");
  CHECK(file.memory.swap_file_max == 1048576);
  CHECK(file.memory.memory_swap_max_bytes == 64U << 20);
  CHECK_FALSE(file.memory.huge_pages);
  CHECK(file.policy.order == "random-out");
  CHECK(file.policy.seed == 99);
  CHECK(file.policy.paths == "storage");
  CHECK(file.policy.cpu_price == 0.5);
  CHECK(file.policy.resume_delay_s == 0.25);
  CHECK_FALSE(file.overlap.allocation);
  CHECK_FALSE(file.overlap.reload);
  CHECK_FALSE(file.overlap.prefill);
  CHECK(file.storage.block == 256U << 10);
  CHECK(file.storage.depth == 16);
  CHECK_FALSE(file.storage.direct);
  CHECK(file.storage.engine == "threads");
  CHECK(file.storage.limit_bytes_per_s == 400ULL << 20);
  CHECK(file.profile.read_bytes_per_s == 2e9);
  CHECK(file.profile.decode_bytes_per_s == 6e9);
  CHECK(file.profile.storage_decode_bytes_per_s == 2e9);
  CHECK(file.profile.allocate_bytes_per_s == 2e10);
  CHECK(file.device.name == "pthread");
  CHECK(file.device.pin_workers == "true");
  CHECK(file.trace.file == "t.json");

  CHECK(with("storage.depth=16").storage.depth == 16);
  CHECK(with("memory.codec=none").memory.codec == "none");
  CHECK(with("memory.codec=\"none\"").memory.codec == "none");
  CHECK(with("storage.limit=400MiB/s").storage.limit_bytes_per_s == 400ULL << 20);
  CHECK(with("storage.limit=").storage.limit_bytes_per_s == 0);
  CHECK(with("memory.memory_swap_max=25%").memory.memory_swap_max_percent == 25);
  CHECK(with("device.name=7").device.name == "7");
  CHECK(with("device.name=nan").device.name == "nan");
  CHECK(with("device.pin_workers=false").device.pin_workers == "false");
  CHECK(with("placement.prefill=[1]").placement.prefill.core_ids == std::vector<std::uint32_t>{1});
  CHECK(
      with("placement.decompressor={cores=\"little\",workers=2}").placement.decompressor.workers ==
      2);
  CHECK(with("placement.decompressor.workers=4").placement.decompressor.workers == 4);
  CHECK(with("placement.decompressor.cores=[3]").placement.decompressor.core_ids ==
        std::vector<std::uint32_t>{3});
  CHECK(with("trace.file=a=b.json").trace.file == "a=b.json");
}

TEST_CASE("a class replaces explicit cores, and an assignment overrides the file") {
  Config config = load("[placement]\nprefill = [2]\n");
  config.set("placement.prefill=little");
  CHECK(config.placement.prefill.core_ids.empty());
  CHECK(config.placement.prefill.cores == "little");
}

TEST_CASE("a bad value names file, line, key and what is allowed") {
  const ConfigFile file("[storage]\ndirect = true\ndepth = 0\n");
  const auto error = error_of([&] { (void)Config::load(file.path()); });
  CHECK(error.code == ErrorCode::kBadConfig);
  CHECK(contains(error.message(), file.path() + ":3"));
  CHECK(contains(error.message(), "storage.depth"));
  CHECK(contains(error.message(), "an integer from 1 to 1024"));
  CHECK_FALSE(contains(error.message(), "\n"));
}

TEST_CASE("an unknown key names file, line and the keys there are") {
  const ConfigFile file("[memory]\ncodec = \"q8\"\ncoddec = \"q8\"\n");
  const auto error = error_of([&] { (void)Config::load(file.path()); });
  CHECK(error.code == ErrorCode::kBadConfig);
  CHECK(contains(error.message(), file.path() + ":3"));
  CHECK(contains(error.message(), "memory.coddec"));
  CHECK(contains(error.message(), "memory.swap_directory"));
  const auto section = error_of([] { (void)load("[memroy]\ncodec = \"q8\"\n"); });
  CHECK(section.code == ErrorCode::kBadConfig);
  CHECK(contains(section.message(), "placement, memory, policy"));
  CHECK(error_of([] { (void)load("memory = 3\n"); }).code == ErrorCode::kBadConfig);
  CHECK(contains(error_of([] { (void)with("memory=3"); }).message(), "unknown key 'memory'"));
}

TEST_CASE("broken TOML names file and line; a missing file is named") {
  const ConfigFile file("[memory]\ncodec = \n");
  const auto error = error_of([&] { (void)Config::load(file.path()); });
  CHECK(error.code == ErrorCode::kBadConfig);
  CHECK(contains(error.message(), file.path() + ":2"));
  CHECK_FALSE(contains(error.message(), "\n"));
  const auto missing = error_of([] { (void)Config::load("/nonexistent/a.toml"); });
  CHECK(missing.code == ErrorCode::kNotFound);
  CHECK(contains(missing.message(), "/nonexistent/a.toml"));
}

TEST_CASE("values outside their range or of another type are refused") {
  const char* assignments[] = {
      "storage.depth=0",
      "storage.depth=1025",
      "storage.depth=1.5",
      "storage.depth=-1",
      "storage.depth=99999999999999999999",
      "storage.depth=8\nx=1",
      "storage.block=3KiB",
      "storage.block=48KiB",
      "storage.block=128MiB",
      "storage.direct=yes",
      "storage.engine=aio",
      "storage.limit=400MiB",
      "storage.limit=0B/s",
      "memory.codec=q9",
      "memory.swap_directory=",
      "memory.swap_file_max=-1",
      "memory.swap_file_max=50%",
      "memory.memory_swap_max=101%",
      "memory.huge_pages=1",
      "policy.order=sideways",
      "policy.seed=-1",
      "policy.paths=both",
      "policy.cpu_price=-0.5",
      "policy.cpu_price=inf",
      "policy.resume_delay=2",
      "policy.resume_delay=2h",
      "overlap.prefill=no",
      "profile.read_bytes_per_s=-1",
      "device.kernels=fast",
      "device.pin_workers=maybe",
      "device.activations=int4",
      "placement.prefill=huge",
      "placement.prefill=[]",
      "placement.prefill=[-1]",
      "placement.prefill=[\"big\"]",
      "placement.prefill={cores=\"big\",workers=2}",
      "placement.decompressor={cores=\"big\",workers=0}",
      "placement.decompressor={cores=\"big\",threads=2}",
      "placement.decompressor=2",
      "placement.decompressor.workers=none",
      "nothing.at.all=1",
      "storage.depth",
      "=3",
  };
  for (const char* assignment : assignments) {
    INFO(assignment);
    CHECK(error_of([&] { (void)with(assignment); }).code == ErrorCode::kBadConfig);
  }
}

TEST_CASE("every codec of the library is accepted, and one that was added") {
  for (const char* codec : {"q8", "none", "q4", "entropy", "entropy:near", "entropy:small",
                            "entropy:free", "packed", "cachegen", "zstd", "lz4", "split-zstd"}) {
    CHECK(with(std::string("memory.codec=") + codec).memory.codec == codec);
    const Config stored = with(std::string("memory.storage_codec=") + codec);
    CHECK(stored.memory.storage_codec == codec);
    CHECK(stored.memory.codec == "q8");
  }
  for (const char* codec : {"entropy:far", "q8:1", "zstd:3", ":", ""}) {
    INFO(codec);
    for (const std::string key : {"memory.codec", "memory.storage_codec"}) {
      const auto error = error_of([&] { (void)with(key + "=\"" + codec + "\""); });
      CHECK(error.code == ErrorCode::kBadConfig);
      CHECK(contains(error.message(), key));
    }
  }
  CHECK(error_of([] { (void)with("memory.codec=mine:2"); }).code == ErrorCode::kBadConfig);
  mzcache::engine::allow_codec_name("mine");
  CHECK(with("memory.codec=mine:2").memory.codec == "mine:2");
  CHECK(with("memory.storage_codec=mine:2").memory.storage_codec == "mine:2");
}

TEST_CASE("every eviction order is accepted") {
  for (const char* order : {"backward-out", "forward-out", "random-out", "optimal"}) {
    CHECK(with(std::string("policy.order=") + order).policy.order == order);
  }
}

TEST_CASE("compressed attention is on or off") {
  CHECK_FALSE(with("memory.compressed_attention=false").memory.compressed_attention);
  CHECK(with("memory.compressed_attention=true").memory.compressed_attention);
  CHECK(error_of([] { (void)with("memory.compressed_attention=1"); }).code ==
        ErrorCode::kBadConfig);
}

TEST_CASE("a refused assignment leaves the configuration as it was") {
  Config config = with("placement.decompressor={cores=[1],workers=2}");
  CHECK(error_of([&] { config.set("placement.decompressor={cores=\"big\",workers=0}"); }).code ==
        ErrorCode::kBadConfig);
  CHECK(config.placement.decompressor.core_ids == std::vector<std::uint32_t>{1});
  CHECK(config.placement.decompressor.workers == 2);
}

TEST_CASE("sizes") {
  using mzcache::parse_size;
  CHECK(*parse_size("512MiB") == 512ULL << 20);
  CHECK(*parse_size("1.5GiB") == 3ULL << 29);
  CHECK(*parse_size("300MB") == 300'000'000);
  CHECK(*parse_size("4096") == 4096);
  CHECK(*parse_size("7 KiB") == 7168);
  CHECK(*parse_size("0") == 0);
  CHECK(*parse_size("18446744073709551615") == ~0ULL);
  for (const char* bad : {"", "MiB", "-1", "+1", "1e6", "0x10", "50%", "1.5", "1.MiB", ".5MiB",
                          "1..5MiB", "12 parsecs", "18446744073709551616", "16777216TiB", "1mib"}) {
    INFO(bad);
    CHECK_FALSE(parse_size(bad).ok());
  }
}

TEST_CASE("token counts") {
  using mzcache::parse_tokens;
  CHECK(*parse_tokens("8k") == 8192);
  CHECK(*parse_tokens("3000") == 3000);
  CHECK(*parse_tokens("2147483647") == 2147483647U);
  for (const char* bad : {"", "k", "8m", "1.5k", "-1", "2147483648", "2097152k", "8kk"}) {
    INFO(bad);
    CHECK_FALSE(parse_tokens(bad).ok());
  }
}

TEST_CASE("amounts: a size, a share, none") {
  using mzcache::parse_amount;
  CHECK(parse_amount("50%")->percent == 50);
  CHECK(parse_amount("0.5%")->percent == 0.5);
  CHECK(parse_amount("none")->percent < 0);
  CHECK(parse_amount("none")->bytes == 0);
  CHECK(parse_amount("64MiB")->bytes == 64ULL << 20);
  CHECK(parse_amount("64MiB")->percent < 0);
  for (const char* bad : {"", "half", "101%", "-5%", "%", "50%%", "5 0%", "1.5"}) {
    INFO(bad);
    CHECK_FALSE(parse_amount(bad).ok());
  }
}
