// Compiling in a short-lived process: what a device's compiler leaves behind in memory goes with
// it.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "gpu/program_build.h"

extern char** environ;

namespace mzcache::gpu {
namespace {

constexpr const char* kHelperName = "mzcache-compile";
constexpr int kErrorOnStdout = 3;  // the helper's exit status for an error it printed

std::string find_helper(const std::string& configured) {
  if (!configured.empty())
    return access(configured.c_str(), X_OK) == 0 ? configured : std::string();
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return {};
  const auto directory = self.parent_path();
  for (const auto& candidate :
       {directory / kHelperName, directory / "../libexec/mzcache" / kHelperName,
        std::filesystem::path(MZCACHE_LIBEXEC_DIR) / kHelperName}) {
    if (access(candidate.c_str(), X_OK) == 0) return candidate.string();
  }
  return {};
}

// The helper's output, through an anonymous file: a pipe could fill up and would need reading.
class OutputFile {
 public:
  OutputFile() : file_(memfd_create("mzcache-compile-output", MFD_CLOEXEC)) {}
  ~OutputFile() {
    if (file_ >= 0) close(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  [[nodiscard]] int descriptor() const noexcept { return file_; }
  [[nodiscard]] std::string text() const {
    std::string text(8192, '\0');
    const ssize_t read_bytes = pread(file_, text.data(), text.size(), 0);
    text.resize(read_bytes > 0 ? static_cast<std::size_t>(read_bytes) : 0);
    return text;
  }

 private:
  int file_;
};

Result<int> run(const std::vector<std::string>& arguments, int output) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t child = 0;
  const int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Error{ErrorCode::kIo, failed, "start", arguments[0]};
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno == EINTR) continue;
    // An embedder that ignores SIGCHLD has its children reaped at once; the file will tell.
    if (errno == ECHILD) return 0;
    return Error{ErrorCode::kIo, errno, "wait for", arguments[0]};
  }
  return status;
}

}  // namespace

std::string print_error(const Error& error) {
  return fmt::format("{}\n{}\n{}\n{}", static_cast<int>(error.code), error.native, error.operation,
                     error.context);
}

Error parse_error(std::string_view text) {
  Error error{ErrorCode::kInternal, 0, "compile in helper", ""};
  std::array<std::string_view, 3> lines;
  for (auto& line : lines) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return error;
    line = text.substr(0, end);
    text.remove_prefix(end + 1);
  }
  int code = 0;
  std::from_chars(lines[0].data(), lines[0].data() + lines[0].size(), code);
  std::from_chars(lines[1].data(), lines[1].data() + lines[1].size(), error.native);
  if (code > 0 && code <= static_cast<int>(ErrorCode::kInternal)) {
    error.code = static_cast<ErrorCode>(code);
  }
  error.operation = lines[2];
  error.context = text;
  return error;
}

Result<void> compile_in_child(const Device& device, const std::string& compiler,
                              const std::string& cache_directory, ProgramSet set,
                              const KernelNeeds& needs) {
  const std::string helper = find_helper(compiler);
  if (helper.empty()) {
    return Error{ErrorCode::kNotFound, 0, "find the compile helper",
                 compiler.empty() ? kHelperName : compiler};
  }
  const OutputFile output;
  if (output.descriptor() < 0) return Error{ErrorCode::kIo, errno, "memfd_create", ""};
  auto status =
      run({helper, "--device", device.info().name, "--memory", memory_mode_name(device.info().mode),
           "--program", program_set_name(set), "--cache", cache_directory, "--products",
           std::to_string(needs.products), "--embeddings", std::to_string(needs.embeddings),
           "--activations", needs.int8 ? "int8" : "float", "--width",
           std::to_string(device.info().float_width)},
          output.descriptor());
  if (!status) return status.error();
  if (*status == 0) return {};
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == kErrorOnStdout) {
    return parse_error(output.text());
  }
  return Error{ErrorCode::kDevice, 0, helper,
               WIFSIGNALED(*status) ? fmt::format("ended by signal {}", WTERMSIG(*status))
                                    : fmt::format("exit status {}", WEXITSTATUS(*status))};
}

}  // namespace mzcache::gpu
