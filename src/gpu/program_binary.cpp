// Program binaries on disk: a header, then the device's own bytes.
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "gpu/program_build.h"

namespace mzcache::gpu {
namespace {

struct BinaryHeader {
  std::array<char, 8> magic{'M', 'Z', 'P', 'R', 'O', 'G', 'R', 'M'};
  std::uint32_t version = 1;
  std::uint32_t header_bytes = sizeof(BinaryHeader);
  std::uint64_t binary_bytes = 0;
  std::uint64_t checksum = 0;  // XXH3 of the binary
};
static_assert(sizeof(BinaryHeader) == 32);

constexpr std::uint64_t kBinaryBytesMax = std::uint64_t{1} << 30;

Result<std::vector<unsigned char>> read_checked(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return Error{ErrorCode::kNotFound, errno, "open program binary", path};
  const auto file_bytes = static_cast<std::uint64_t>(file.tellg());
  BinaryHeader header;
  file.seekg(0);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  const BinaryHeader expected;
  if (!file || header.magic != expected.magic || header.version != expected.version ||
      header.header_bytes != sizeof header || header.binary_bytes > kBinaryBytesMax ||
      header.binary_bytes + sizeof header != file_bytes) {
    return Error{ErrorCode::kBadFormat, 0, "read program binary", path};
  }
  std::vector<unsigned char> bytes(header.binary_bytes);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) return Error{ErrorCode::kIo, errno, "read program binary", path};
  if (XXH3_64bits(bytes.data(), bytes.size()) != header.checksum) {
    return Error{ErrorCode::kChecksum, 0, "read program binary", path};
  }
  return bytes;
}

int write_all(int file, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return 0;
}

Result<void> write_file(const std::string& path, const BinaryHeader& header,
                        const std::vector<unsigned char>& bytes) {
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return Error{ErrorCode::kIo, errno, "create program binary", path};
  int failed = write_all(file, &header, sizeof header);
  if (failed == 0) failed = write_all(file, bytes.data(), bytes.size());
  // Without the sync a crash of the machine could leave the final name on an empty file.
  if (failed == 0 && ::fdatasync(file) != 0) failed = errno;
  if (::close(file) != 0 && failed == 0) failed = errno;
  if (failed != 0) {
    ::unlink(path.c_str());
    return Error{failed == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo, failed,
                 "write program binary", path};
  }
  return {};
}

void hash_text(XXH3_state_t* state, std::string_view text) {
  const std::uint64_t length = text.size();
  XXH3_128bits_update(state, &length, sizeof length);
  XXH3_128bits_update(state, text.data(), text.size());
}

}  // namespace

std::string resolve_cache_directory(const std::string& configured) {
  if (!configured.empty()) return configured;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/mzcache";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/mzcache";
  return {};
}

std::string binary_path(const Device& device, const std::string& cache_directory,
                        const std::string& options, const std::vector<KernelSource>& sources) {
  std::string platform_version;
  const cl::Platform platform(device.device().getInfo<CL_DEVICE_PLATFORM>());
  (void)platform.getInfo(CL_PLATFORM_VERSION, &platform_version);
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  hash_text(state, device.info().name);
  hash_text(state, device.info().version);
  hash_text(state, device.info().driver);
  hash_text(state, platform_version);
  hash_text(state, options);
  for (const KernelSource& source : sources) {
    hash_text(state, source.name);
    hash_text(state, source.text);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{}/programs/{:016x}{:016x}.bin", cache_directory, hash.high64, hash.low64);
}

Result<void> save_binary(const Device& device, const cl::Program& program,
                         const std::string& path) {
  std::size_t size = 0;
  cl_int status = clGetProgramInfo(program(), CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr);
  if (status != CL_SUCCESS || size == 0) {
    return Error{ErrorCode::kDevice, status, "ask for program binary", device.info().name};
  }
  std::vector<unsigned char> bytes(size);
  unsigned char* pointer = bytes.data();
  status = clGetProgramInfo(program(), CL_PROGRAM_BINARIES, sizeof pointer, &pointer, nullptr);
  if (status != CL_SUCCESS) {
    return Error{ErrorCode::kDevice, status, "ask for program binary", device.info().name};
  }
  BinaryHeader header;
  header.binary_bytes = bytes.size();
  header.checksum = XXH3_64bits(bytes.data(), bytes.size());

  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (failed) return Error{ErrorCode::kIo, failed.value(), "create directory of", path};
  static std::atomic<unsigned> serial{0};
  const std::string temporary = fmt::format("{}.{}.{}", path, getpid(), serial.fetch_add(1));
  if (auto written = write_file(temporary, header, bytes); !written) return written;
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    return Error{ErrorCode::kIo, reason, "rename program binary to", path};
  }
  return {};
}

Result<cl::Program> load_binary(const Device& device, const std::string& path,
                                const std::string& options) {
  auto bytes = read_checked(path);
  if (!bytes) return bytes.error();
  cl_int status = CL_SUCCESS;
  cl::Program program(device.context(), {device.device()}, {*bytes}, nullptr, &status);
  if (status == CL_SUCCESS) status = program.build({device.device()}, options.c_str());
  if (status != CL_SUCCESS) {
    return Error{ErrorCode::kDevice, status, "load program binary", path};
  }
  return program;
}

}  // namespace mzcache::gpu
