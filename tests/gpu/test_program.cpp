#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "gpu/program.h"
#include "gpu/program_build.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::gpu;
namespace fs = std::filesystem;

namespace {

// Removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (fs::temp_directory_path() / "mzcache-test-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

DeviceOptions with_cache(std::string directory, std::string compiler) {
  DeviceOptions options;
  options.cache_directory = std::move(directory);
  options.compiler = std::move(compiler);
  return options;
}

DeviceOptions with_memory(std::string mode) {
  DeviceOptions options;
  options.force_memory = std::move(mode);
  return options;
}

std::unique_ptr<Device> open_device() {
  auto device = Device::open({});
  REQUIRE(device);
  return std::move(*device);
}

std::set<std::string> files_under(const fs::path& directory) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() && entry.file_size() > 0) files.insert(entry.path().string());
  }
  return files;
}

// The probe is the smallest program there is; what holds for it holds for the kernels.
Result<cl::Program> load_probe(Device& device, const ProgramOptions& options) {
  return load_program_set(device, options, ProgramSet::kProbe);
}

bool has_kernel(const cl::Program& program, const char* name) {
  cl_int status = CL_SUCCESS;
  const cl::Kernel kernel(program, name, &status);
  return status == CL_SUCCESS;
}

fs::path the_binary(const TemporaryDirectory& directory) {
  const auto files = files_under(directory.path());
  REQUIRE(files.size() == 1);
  return *files.begin();
}

std::string test_program() { return fs::read_symlink("/proc/self/exe").string(); }

}  // namespace

TEST_CASE("every kernel file is embedded as it is, the common one first") {
  const auto& sources = kernel_sources();
  REQUIRE_FALSE(sources.empty());
  CHECK(sources[0].name == "common.cl");
  std::set<std::string> embedded;
  for (const KernelSource& source : sources) {
    CAPTURE(source.name);
    embedded.insert(std::string(source.name));
    const fs::path path = fs::path(MZCACHE_SOURCE_DIR) / "kernels" / source.name;
    CHECK(read_file(path) == source.text);
  }
  std::size_t files = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(MZCACHE_SOURCE_DIR) / "kernels")) {
    if (entry.path().extension() == ".cl") ++files;
  }
  CHECK(embedded.size() == files);
}

TEST_CASE("a program is compiled by the helper once and then comes from its file") {
  const TemporaryDirectory cache;
  auto device = open_device();
  auto cold = load_probe(*device, {cache.path(), ""});
  REQUIRE(cold);
  CHECK(has_kernel(*cold, "mz_probe"));
  CHECK(device->notices().empty());
  const fs::path binary = the_binary(cache);
  const auto written = fs::last_write_time(binary);
  // A compiler that cannot work is not asked.
  auto warm = load_probe(*device, {cache.path(), "/bin/false"});
  REQUIRE(warm);
  CHECK(has_kernel(*warm, "mz_probe"));
  CHECK(device->notices().empty());
  CHECK(fs::last_write_time(binary) == written);
}

TEST_CASE("a damaged binary is built again") {
  const TemporaryDirectory cache;
  auto device = open_device();
  REQUIRE(load_probe(*device, {cache.path(), ""}));
  const fs::path binary = the_binary(cache);
  const std::string good = read_file(binary);
  REQUIRE(good.size() > 1000);
  std::vector<std::pair<std::string, ErrorCode>> damaged;
  damaged.emplace_back("", ErrorCode::kBadFormat);
  damaged.emplace_back(good.substr(0, 20), ErrorCode::kBadFormat);
  damaged.emplace_back(good.substr(0, good.size() - 1), ErrorCode::kBadFormat);
  damaged.emplace_back(good + "x", ErrorCode::kBadFormat);
  for (const std::size_t at : {std::size_t{0}, std::size_t{8}, std::size_t{16}, std::size_t{23}}) {
    damaged.emplace_back(good, ErrorCode::kBadFormat).first[at] ^= 0x41;
  }
  for (const std::size_t at :
       {std::size_t{24}, std::size_t{40}, good.size() / 2, good.size() - 1}) {
    damaged.emplace_back(good, ErrorCode::kChecksum).first[at] ^= 0x41;
  }
  const std::string flags = build_options(*device, ProgramSet::kProbe, {});
  for (const auto& [bytes, code] : damaged) {
    write_file(binary, bytes);
    auto loaded = load_binary(*device, binary.string(), flags);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().code == code);
  }
  REQUIRE(load_probe(*device, {cache.path(), ""}));
  CHECK(load_binary(*device, binary.string(), flags).ok());
  CHECK(device->notices().empty());
  fs::remove(binary);
  CHECK(load_binary(*device, binary.string(), flags).error().code == ErrorCode::kNotFound);
}

TEST_CASE("without a helper the program is compiled here, and one notice says so") {
  const TemporaryDirectory cache;
  auto device = open_device();
  const char* compiler = GENERATE("/no/such/helper", "/bin/false");
  auto program = load_probe(*device, {cache.path(), compiler});
  REQUIRE(program);
  CHECK(has_kernel(*program, "mz_probe"));
  REQUIRE(load_probe(*device, {cache.path(), compiler}));
  REQUIRE(device->notices().size() == 1);
  CHECK(device->notices()[0].find(compiler) != std::string::npos);
  CHECK(files_under(cache.path()).empty());  // only launched programs are worth keeping
}

TEST_CASE("asked to compile in this process, it does so without a notice") {
  const TemporaryDirectory cache;
  auto device = open_device();
  auto program = load_probe(*device, {cache.path(), "-"});
  REQUIRE(program);
  CHECK(has_kernel(*program, "mz_probe"));
  CHECK(device->notices().empty());
}

TEST_CASE("a cache directory that cannot be written costs a notice, not the program") {
  auto device = open_device();
  auto program = load_probe(*device, {"/dev/null/cache", ""});
  REQUIRE(program);
  CHECK(has_kernel(*program, "mz_probe"));
  REQUIRE(device->notices().size() == 1);
  CHECK(device->notices()[0].find("/dev/null/cache") != std::string::npos);
}

TEST_CASE("the cache directory is the configured one, else the user's") {
  CHECK(resolve_cache_directory("/some/where") == "/some/where");
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const std::string saved = xdg == nullptr ? "" : xdg;
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  CHECK(resolve_cache_directory("") == "/xdg/mzcache");
  setenv("XDG_CACHE_HOME", "relative is invalid", 1);
  const char* home = std::getenv("HOME");
  if (home != nullptr) CHECK(resolve_cache_directory("") == std::string(home) + "/.cache/mzcache");
  unsetenv("XDG_CACHE_HOME");
  if (xdg != nullptr) setenv("XDG_CACHE_HOME", saved.c_str(), 1);
}

TEST_CASE("the file's name depends on options and sources") {
  auto device = open_device();
  const std::vector<KernelSource> one = {{"a.cl", "xy"}, {"b.cl", "z"}};
  const std::vector<KernelSource> other = {{"a.cl", "x"}, {"b.cl", "yz"}};
  const std::string path = binary_path(*device, "/c", "-DA", one);
  CHECK(path == binary_path(*device, "/c", "-DA", one));
  CHECK(path != binary_path(*device, "/c", "-DB", one));
  CHECK(path != binary_path(*device, "/c", "-DA", other));
  auto buffers = Device::open(with_memory("buffers"));
  REQUIRE(buffers);
  if (device->info().mode != MemoryMode::kBuffers) {
    CHECK(build_options(*device, ProgramSet::kProbe, {}) !=
          build_options(**buffers, ProgramSet::kProbe, {}));
  }
}

TEST_CASE("a kernel that does not build names its file, the device and what the compiler said") {
  auto device = open_device();
  const std::vector<KernelSource> sources = {
      {"common.cl", "#define MZ_TWO 2\n"},
      {"sound.cl", "kernel void sound(global int* x) { *x = MZ_TWO; }\n"},
      {"broken.cl", "\nkernel void broken(global int* x) { *x = undeclared_name; }\n"},
      {"later.cl", "kernel void later(global int* x) { *x = 3; }\n"}};
  auto program = build_from_source(*device, sources, "-cl-std=CL1.2");
  REQUIRE_FALSE(program);
  CHECK(program.error().code == ErrorCode::kCompile);
  const std::string message = program.error().message();
  CAPTURE(message);
  CHECK(program.error().operation == "compile broken.cl");
  CHECK(message.find(device->info().name) != std::string::npos);
  CHECK(message.find("undeclared_name") != std::string::npos);
  CHECK(message.find("broken.cl:2") != std::string::npos);
  CHECK(build_from_source(*device, {}, "").error().code == ErrorCode::kInternal);
}

TEST_CASE("the helper's errors survive the way between processes") {
  const Error error{ErrorCode::kCompile, -11, "compile x.cl", "for device:\nline one\nline two"};
  const Error back = parse_error(print_error(error));
  CHECK(back.code == error.code);
  CHECK(back.native == error.native);
  CHECK(back.operation == error.operation);
  CHECK(back.context == error.context);
  for (const char* garbage : {"", "x", "12", "99\n1\nop\n", "a\nb\nc\nd", "13\n"}) {
    CHECK(parse_error(garbage).code == ErrorCode::kInternal);
  }
}

TEST_CASE("several processes compile the same program at once") {
  const TemporaryDirectory cache;
  auto device = open_device();
  const std::string helper = (fs::path(test_program()).parent_path() / "mzcache-compile").string();
  const std::string command = fmt::format(
      "for i in 1 2 3; do '{}' --device '{}' --memory {} --program probe --cache '{}' >/dev/null & "
      "jobs=\"$jobs $!\"; done; for j in $jobs; do wait $j || exit 1; done",
      helper, device->info().name, memory_mode_name(device->info().mode), cache.path());
  REQUIRE(std::system(command.c_str()) == 0);  // NOLINT(*-mt-unsafe, cert-env33-c)
  const fs::path binary = the_binary(cache);
  CHECK(load_binary(*device, binary.string(), build_options(*device, ProgramSet::kProbe, {})).ok());
}

TEST_CASE("the helper refuses what it does not understand") {
  const std::string helper = (fs::path(test_program()).parent_path() / "mzcache-compile").string();
  for (const char* arguments : {"", "--cache /tmp/x", "--nonsense 1 --cache /tmp/x",
                                "--program everything --memory buffers --cache /tmp/x"}) {
    const int status = std::system(fmt::format("'{}' {} >/dev/null", helper, arguments).c_str());
    CHECK(WEXITSTATUS(status) == 3);
  }
}

// Run by the test below in a process of its own, where the driver's cache is empty: opening the
// device is what reads POCL_CACHE_DIR.
TEST_CASE("launch every kernel in a fresh process", "[.fresh-process]") {
  const char* cache = std::getenv("MZCACHE_TEST_CACHE");
  const char* driver_cache = std::getenv("POCL_CACHE_DIR");
  REQUIRE(cache != nullptr);
  REQUIRE(driver_cache != nullptr);
  auto device = Device::open(with_cache(cache, "/bin/false"));
  REQUIRE(device);
  auto program = load_kernels(**device, {}, {cache, "/bin/false"});
  REQUIRE(program);
  const auto unpacked = files_under(driver_cache);
  REQUIRE(warm_up(**device, program->program));
  CHECK(files_under(driver_cache) == unpacked);  // nothing was compiled
  CHECK((*device)->notices().empty());
}

TEST_CASE("a saved program launches without compiling where the driver has never seen it") {
  // Kept between runs: compiling all kernels takes long.
  const std::string cache = std::string(MZCACHE_BINARY_DIR) + "/test_gpu_cache";
  auto device = Device::open(with_cache(cache, ""));
  REQUIRE(device);
  auto program = load_kernels(**device, {}, {cache, ""});
  REQUIRE(program);
  std::vector<cl::Kernel> kernels;
  REQUIRE(program->program.createKernels(&kernels) == CL_SUCCESS);
  CHECK_FALSE(kernels.empty());
  CHECK((*device)->notices().empty());
  if ((*device)->info().platform != "Portable Computing Language") return;
  const TemporaryDirectory empty;
  const std::string command =
      fmt::format("POCL_CACHE_DIR='{}' MZCACHE_TEST_CACHE='{}' '{}' '[.fresh-process]' >&2",
                  empty.path(), cache, test_program());
  CHECK(std::system(command.c_str()) == 0);  // NOLINT(*-mt-unsafe, cert-env33-c)
}
