#include "engine/gguf.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "engine/gguf_parser.h"

namespace mzcache::engine {
namespace {

// The first read. Nearly every header is longer; a parse that runs out asks for more.
constexpr std::uint64_t kFirstReadBytes = std::uint64_t{1} << 20;

struct FileHandle {
  explicit FileHandle(int descriptor) : fd(descriptor) {}
  ~FileHandle() {
    if (fd >= 0) ::close(fd);
  }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  int fd;
};

Error io_error(const std::string& path, int number) {
  const bool gone = number == ENOENT || number == ENOTDIR;
  return {.code = gone ? ErrorCode::kNotFound : ErrorCode::kIo,
          .native = number,
          .operation = "open model",
          .context = path,
          .hint = gone ? "give a GGUF file that is there (tools/get-model.sh fetches one)" : ""};
}

// Extends `header` to the file's first `bytes` bytes.
Result<void> read_up_to(int fd, const std::string& path, std::uint64_t bytes, std::string& header) {
  std::uint64_t have = header.size();
  header.resize(bytes);
  while (have < bytes) {
    const ssize_t got = ::pread(fd, header.data() + have, bytes - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(path, errno);
    if (got == 0) {
      return Error{ErrorCode::kIo, 0, "open model", path + ": the file became shorter while read"};
    }
    have += static_cast<std::uint64_t>(got);
  }
  return {};
}

std::uint64_t identity_of(std::string_view header, std::uint64_t file_bytes,
                          std::int64_t modified_ns) {
  const std::array<std::uint64_t, 3> parts = {XXH3_64bits(header.data(), header.size()), file_bytes,
                                              static_cast<std::uint64_t>(modified_ns)};
  return XXH3_64bits(parts.data(), sizeof(parts));
}

}  // namespace

// GgufFile's private members in one go.
struct GgufFile::Parts {
  static GgufFile assemble(std::string path, GgufContents contents, std::uint64_t file_bytes,
                           std::uint64_t identity) {
    GgufFile file;
    file.path_ = std::move(path);
    file.file_bytes_ = file_bytes;
    file.version_ = contents.version;
    file.alignment_ = contents.alignment;
    file.identity_ = identity;
    file.metadata_ = std::move(contents.metadata);
    file.tensors_ = std::move(contents.tensors);
    return file;
  }
};

Result<GgufFile> GgufFile::parse(std::string_view name, std::string_view header,
                                 std::uint64_t file_bytes) {
  GgufParse parse = parse_gguf(name, header, file_bytes);
  if (!parse.contents) return std::move(parse.contents).error();
  const std::uint64_t header_bytes = parse.contents->header_bytes;
  return Parts::assemble(std::string(name), std::move(parse.contents).value(), file_bytes,
                         identity_of(header.substr(0, header_bytes), file_bytes, 0));
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  // Not blocking: opening a pipe would wait for a writer.
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return io_error(path, errno);
  struct stat status{};
  if (::fstat(file.fd, &status) != 0) return io_error(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kBadFormat,         0,  "open model",
                 path + ": not a regular file", {}, "give a GGUF file"};
  }
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  std::string header;
  std::uint64_t bytes = std::min(file_bytes, kFirstReadBytes);
  while (true) {
    if (auto read = read_up_to(file.fd, path, bytes, header); !read) return read.error();
    GgufParse parse = parse_gguf(path, header, file_bytes);
    if (parse.contents) {
      const std::int64_t modified_ns =
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
      const std::string_view used =
          std::string_view(header).substr(0, parse.contents->header_bytes);
      const std::uint64_t identity = identity_of(used, file_bytes, modified_ns);
      return Parts::assemble(path, std::move(parse.contents).value(), file_bytes, identity);
    }
    if (parse.wanted_bytes == 0) return std::move(parse.contents).error();
    if (parse.wanted_bytes > kGgufHeaderBytesMax) {
      return Error{ErrorCode::kBadFormat, 0, "open model",
                   path + ": the header needs " + std::to_string(parse.wanted_bytes) +
                       " bytes, allowed are " + std::to_string(kGgufHeaderBytesMax)};
    }
    bytes = std::min({file_bytes, kGgufHeaderBytesMax, std::max(parse.wanted_bytes, bytes * 4)});
  }
}

const GgufTensor* GgufFile::tensor(std::string_view name) const noexcept {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [name](const GgufTensor& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

}  // namespace mzcache::engine
