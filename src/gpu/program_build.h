// Programs from source, and where their binaries live: internal to the room.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gpu/device.h"
#include "gpu/program.h"

namespace mzcache::gpu {

enum class ProgramSet : std::uint8_t {
  kPortable,  // kernels/*.cl
  kCpu,       // kernels/cpu/*.cl and what it uses of the others
  kProbe,     // the capability test of Device::open
  kRoofline,  // what the device can do at best
};
[[nodiscard]] const char* program_set_name(ProgramSet set) noexcept;
[[nodiscard]] const std::vector<KernelSource>& sources_of(ProgramSet set);
[[nodiscard]] ProgramSet kernel_set(const Device& device) noexcept;

[[nodiscard]] Result<cl::Program> load_program_set(Device& device, const ProgramOptions& options,
                                                   ProgramSet set, const KernelNeeds& needs = {});
[[nodiscard]] Result<std::string> compile_program_set(Device& device, const ProgramOptions& options,
                                                      ProgramSet set,
                                                      const KernelNeeds& needs = {});

// Options every kernel is built with on this device, for the memory mode it is in.
[[nodiscard]] std::string build_options(const Device& device, ProgramSet set,
                                        const KernelNeeds& needs);
// kCompile names the kernel file, the device and the head of the log.
[[nodiscard]] Result<cl::Program> build_from_source(const Device& device,
                                                    const std::vector<KernelSource>& sources,
                                                    const std::string& options);
// Launches every kernel without work, at the sizes it is used with.
[[nodiscard]] Result<void> warm_up(const Device& device, const cl::Program& program);

// <cache directory>/programs/<hash of device, driver, platform, options and sources>.bin
[[nodiscard]] std::string binary_path(const Device& device, const std::string& cache_directory,
                                      const std::string& build_options,
                                      const std::vector<KernelSource>& sources);
// The directory `configured` or the user's own; empty where neither can be found.
[[nodiscard]] std::string resolve_cache_directory(const std::string& configured);

// Saves to a temporary name first: any number of processes may save and load at once.
[[nodiscard]] Result<void> save_binary(const Device& device, const cl::Program& program,
                                       const std::string& path);
// kNotFound where there is none; kBadFormat, kChecksum, kDevice where it is of no use.
[[nodiscard]] Result<cl::Program> load_binary(const Device& device, const std::string& path,
                                              const std::string& build_options);

// Has `set` compiled into the cache by the helper process. kNotFound: no helper; kCompile: the
// sources do not build; anything else: the helper failed.
[[nodiscard]] Result<void> compile_in_child(const Device& device, const std::string& compiler,
                                            const std::string& cache_directory, ProgramSet set,
                                            const KernelNeeds& needs);
// What the helper prints for an error, and back.
[[nodiscard]] std::string print_error(const Error& error);
[[nodiscard]] Error parse_error(std::string_view text);

}  // namespace mzcache::gpu
