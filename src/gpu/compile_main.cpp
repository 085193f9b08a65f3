// mzcache-compile: builds the kernels for one device, launches each once without work, and saves
// the binary. The library starts it; nobody else needs to.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "gpu/program_build.h"

namespace {

using mzcache::Error;
using mzcache::ErrorCode;
using mzcache::Result;

Result<std::string> run(int argc, char** argv) {
  mzcache::gpu::DeviceOptions device_options;
  mzcache::gpu::ProgramOptions program_options;
  auto set = mzcache::gpu::ProgramSet::kKernels;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view key = argv[i];
    const std::string value = argv[i + 1];
    if (key == "--device") {
      device_options.name = value;
    } else if (key == "--memory") {
      device_options.force_memory = value;
    } else if (key == "--cache") {
      program_options.cache_directory = value;
    } else if (key == "--program" && (value == "kernels" || value == "probe")) {
      if (value == "probe") set = mzcache::gpu::ProgramSet::kProbe;
    } else {
      return Error{ErrorCode::kBadArgument, 0, "mzcache-compile", std::string(key) + " " + value};
    }
  }
  if (program_options.cache_directory.empty() || device_options.force_memory.empty()) {
    return Error{ErrorCode::kBadArgument, 0, "mzcache-compile",
                 "usage: --device NAME --memory MODE --program kernels|probe --cache DIRECTORY"};
  }
  auto device = mzcache::gpu::Device::open(device_options);
  if (!device) return device.error();
  return compile_program_set(**device, program_options, set);
}

}  // namespace

int main(int argc, char** argv) {
  const auto path = run(argc, argv);
  const std::string text = path ? *path : mzcache::gpu::print_error(path.error());
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  // The result is on disk; tearing the device down would only take time.
  _exit(path ? 0 : 3);
}
