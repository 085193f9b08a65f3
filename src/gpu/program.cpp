// Where a program comes from: the cache, else the helper process, else this process.
#include "gpu/program.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "gpu/host_pointer_probe.h"
#include "gpu/program_build.h"

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

}  // namespace

const std::vector<KernelSource>& sources_of(ProgramSet set) {
  return set == ProgramSet::kProbe ? host_pointer_probe_sources() : kernel_sources();
}

Result<cl::Program> load_program_set(Device& device, const ProgramOptions& options,
                                     ProgramSet set) {
  const auto& sources = sources_of(set);
  const std::string flags = build_options(device);
  const std::string user_directory = resolve_cache_directory(options.cache_directory);
  if (!user_directory.empty()) {
    auto cached = load_binary(device, binary_path(device, user_directory, flags, sources), flags);
    if (cached) return cached;
  }
  const CacheDirectory cache(device, options.cache_directory);
  if (!cache.path().empty() && options.compiler != "-") {
    auto compiled = compile_in_child(device, options.compiler, cache.path(), set);
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
                                        ProgramSet set) {
  const auto& sources = sources_of(set);
  const std::string flags = build_options(device);
  auto program = build_from_source(device, sources, flags);
  if (!program) return program.error();
  if (auto warm = warm_up(device, *program); !warm) return warm.error();
  const std::string directory = resolve_cache_directory(options.cache_directory);
  if (directory.empty()) {
    return Error{ErrorCode::kNotFound, 0, "save program", "there is no cache directory"};
  }
  std::string path = binary_path(device, directory, flags, sources);
  if (auto saved = save_binary(device, *program, path); !saved) return saved.error();
  return path;
}

Result<cl::Program> load_program(Device& device, const ProgramOptions& options) {
  return load_program_set(device, options, ProgramSet::kKernels);
}

Result<std::string> compile_program(Device& device, const ProgramOptions& options) {
  return compile_program_set(device, options, ProgramSet::kKernels);
}

}  // namespace mzcache::gpu
