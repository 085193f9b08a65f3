// Where a program comes from: the cache, else the helper process, else this process.
#include "gpu/program.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "gpu/host_pointer_probe.h"
#include "gpu/program_build.h"
#include "gpu/roofline.h"

namespace mzcache::gpu {
namespace {

// The user's cache directory, or where that cannot be written one for this load alone: the helper
// hands its result over in a file.
class CacheDirectory {
 public:
  CacheDirectory(Device& device, const std::string& configured) {
    path_ = resolve_cache_directory(configured);
    if (writable(path_)) return;
    device.add_notice(
        "compiled kernels are not kept: " +
        (path_.empty() ? std::string("there is no cache directory") : "cannot write to " + path_));
    path_.clear();
    std::error_code ignored;
    const auto base = std::filesystem::temp_directory_path(ignored);
    std::string pattern = (ignored ? std::string("/tmp") : base.string()) + "/mzcache-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) return;
    path_ = pattern;
    temporary_ = true;
  }
  ~CacheDirectory() {
    std::error_code ignored;
    if (temporary_) std::filesystem::remove_all(path_, ignored);
  }
  CacheDirectory(const CacheDirectory&) = delete;
  CacheDirectory& operator=(const CacheDirectory&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  static bool writable(const std::string& directory) {
    if (directory.empty()) return false;
    const std::string programs = directory + "/programs";
    std::error_code failed;
    std::filesystem::create_directories(programs, failed);
    return !failed && access(programs.c_str(), W_OK | X_OK) == 0;
  }

  std::string path_;  // empty: none at all
  bool temporary_ = false;
};

// PoCL generates a kernel's code twice: for launches like ours, and, once it is asked for a binary,
// for launches of any size. The second is made here by a process beside this one and left in PoCL's
// own cache, where it is found; if that fails, it is made after all. Only in the helper process,
// whose other threads are PoCL's workers, idle between build and launch.
class BinaryAhead {
 public:
  BinaryAhead(const Device& device, const cl::Program& program) {
    if (!device.info().cpu || device.info().platform != "Portable Computing Language") return;
    child_ = fork();
    if (child_ != 0) return;
    std::size_t size = 0;
    (void)clGetProgramInfo(program(), CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr);
    _exit(0);
  }
  // Waits about as long as the other half took, should the child hang.
  ~BinaryAhead() {
    if (child_ <= 0) return;
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::seconds(1) + 2 * (Clock::now() - begin_);
    while (waitpid(child_, nullptr, WNOHANG) == 0) {
      if (Clock::now() > end) kill(child_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  BinaryAhead(const BinaryAhead&) = delete;
  BinaryAhead& operator=(const BinaryAhead&) = delete;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  pid_t child_ = -1;
};

std::vector<KernelSource> portable_sources() {
  std::vector<KernelSource> sources;
  for (const KernelSource& source : kernel_sources()) {
    if (!source.name.starts_with("cpu/")) sources.push_back(source);
  }
  return sources;
}

}  // namespace

const char* program_set_name(ProgramSet set) noexcept {
  switch (set) {
    case ProgramSet::kPortable:
      return "portable";
    case ProgramSet::kCpu:
      return "cpu";
    case ProgramSet::kProbe:
      return "probe";
    case ProgramSet::kRoofline:
      return "roofline";
  }
  return "";
}

const std::vector<KernelSource>& sources_of(ProgramSet set) {
  static const std::vector<KernelSource> portable = portable_sources();
  switch (set) {
    case ProgramSet::kPortable:
      return portable;
    case ProgramSet::kCpu:
      return kernel_sources();
    case ProgramSet::kProbe:
      return host_pointer_probe_sources();
    case ProgramSet::kRoofline:
      return roofline_sources();
  }
  return portable;
}

ProgramSet kernel_set(const Device& device) noexcept {
  return device.info().kernels == "cpu" ? ProgramSet::kCpu : ProgramSet::kPortable;
}

Result<cl::Program> load_program_set(Device& device, const ProgramOptions& options, ProgramSet set,
                                     const KernelNeeds& needs) {
  const auto& sources = sources_of(set);
  const std::string flags = build_options(device, set, needs);
  const std::string user_directory = resolve_cache_directory(options.cache_directory);
  if (!user_directory.empty()) {
    auto cached = load_binary(device, binary_path(device, user_directory, flags, sources), flags);
    if (cached) return cached;
  }
  const CacheDirectory cache(device, options.cache_directory);
  if (!cache.path().empty() && options.compiler != "-") {
    auto compiled = compile_in_child(device, options.compiler, cache.path(), set, needs);
    if (!compiled && compiled.error().code == ErrorCode::kCompile) return compiled.error();
    if (compiled) {
      auto loaded = load_binary(device, binary_path(device, cache.path(), flags, sources), flags);
      if (loaded) return loaded;
      compiled = loaded.error();
    }
    device.add_notice("kernels are compiled in this process, which costs it memory: " +
                      compiled.error().message());
  }
  // No warm-up and no saving: a binary is worth keeping only after the launches that only the
  // helper may risk.
  return build_from_source(device, sources, flags);
}

Result<std::string> compile_program_set(Device& device, const ProgramOptions& options,
                                        ProgramSet set, const KernelNeeds& needs) {
  const auto& sources = sources_of(set);
  const std::string flags = build_options(device, set, needs);
  auto program = build_from_source(device, sources, flags);
  if (!program) return program.error();
  {
    const BinaryAhead ahead(device, *program);
    if (auto warm = warm_up(device, *program); !warm) return warm.error();
  }
  const std::string directory = resolve_cache_directory(options.cache_directory);
  if (directory.empty()) {
    return Error{ErrorCode::kNotFound, 0, "save program", "there is no cache directory"};
  }
  std::string path = binary_path(device, directory, flags, sources);
  if (auto saved = save_binary(device, *program, path); !saved) return saved.error();
  return path;
}

Result<Kernels> load_kernels(Device& device, const KernelNeeds& needs,
                             const ProgramOptions& options) {
  auto program = load_program_set(device, options, kernel_set(device), needs);
  if (!program) return program.error();
  return Kernels{std::move(*program), needs};
}

Result<std::string> compile_kernels(Device& device, const KernelNeeds& needs,
                                    const ProgramOptions& options) {
  return compile_program_set(device, options, kernel_set(device), needs);
}

}  // namespace mzcache::gpu
