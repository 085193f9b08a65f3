// mzcache-compile: builds the kernels for one device, launches each once without work, and saves
// the binary. The library starts it; nobody else needs to.
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/program_build.h"

namespace {

using mzcache::Error;
using mzcache::ErrorCode;
using mzcache::Result;
using mzcache::gpu::ProgramSet;

std::optional<ProgramSet> set_of(std::string_view name) {
  for (const auto set :
       {ProgramSet::kPortable, ProgramSet::kCpu, ProgramSet::kProbe, ProgramSet::kRoofline}) {
    if (name == program_set_name(set)) return set;
  }
  return std::nullopt;
}

Result<std::string> run(int argc, char** argv) {
  mzcache::gpu::DeviceOptions device_options;
  mzcache::gpu::ProgramOptions program_options;
  auto set = ProgramSet::kPortable;
  mzcache::gpu::KernelNeeds needs;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view key = argv[i];
    const std::string value = argv[i + 1];
    if (key == "--device") {
      device_options.name = value;
    } else if (key == "--memory") {
      device_options.force_memory = value;
    } else if (key == "--cache") {
      program_options.cache_directory = value;
    } else if (key == "--program" && set_of(value)) {
      set = *set_of(value);
    } else if (key == "--products") {
      needs.products = static_cast<mzcache::gpu::TypeSet>(std::stoul(value));
    } else if (key == "--embeddings") {
      needs.embeddings = static_cast<mzcache::gpu::TypeSet>(std::stoul(value));
    } else if (key == "--width") {
      device_options.float_width_max = static_cast<std::uint32_t>(std::stoul(value));
    } else if (key == "--activations") {
      needs.int8 = value == "int8";
    } else {
      return Error{ErrorCode::kBadArgument, 0, "mzcache-compile", std::string(key) + " " + value};
    }
  }
  if (program_options.cache_directory.empty() || device_options.force_memory.empty()) {
    return Error{ErrorCode::kBadArgument, 0, "mzcache-compile",
                 "usage: --device NAME --memory MODE --program SET --cache DIRECTORY"};
  }
  if (set == ProgramSet::kCpu || set == ProgramSet::kPortable) {
    device_options.kernels = program_set_name(set);
  }
  auto device = mzcache::gpu::Device::open(device_options);
  if (!device) return device.error();
  return compile_program_set(**device, program_options, set, needs);
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
