#include "gpu/program_build.h"

#include <array>

#include "gpu/kernel_manifest.h"

namespace mzcache::gpu {
namespace {

constexpr std::size_t kLogCharactersMax = 1500;
// Every pointer argument of a warm-up launch points here; every word is non-zero, so that a kernel
// sees its stop flag set and returns.
constexpr std::size_t kWarmUpBytes = 64 * 1024;
// PoCL compiles a kernel once more for grids at least this wide.
constexpr std::size_t kWideGrid = 65536;

// The file that the log's first error is in: "rms_norm.cl:12:3: error: …", or with the place after
// the word, as PoCL writes it.
std::string file_of(const std::string& log, const std::vector<KernelSource>& sources) {
  const std::size_t error = log.find("error:");
  if (error == std::string::npos) return "program";
  const std::size_t newline = log.rfind('\n', error);
  const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
  const std::string line = log.substr(begin, log.find('\n', error) - begin);
  for (const KernelSource& source : sources) {
    if (line.find(std::string(source.name) + ":") != std::string::npos) {
      return std::string(source.name);
    }
  }
  return "program";
}

Error compile_error(const Device& device, const cl::Program& program, cl_int status,
                    const std::vector<KernelSource>& sources) {
  std::string log;
  (void)program.getBuildInfo(device.device(), CL_PROGRAM_BUILD_LOG, &log);
  while (!log.empty() && log.back() == '\0') log.pop_back();
  const std::string file = file_of(log, sources);
  if (log.size() > kLogCharactersMax) log = log.substr(0, kLogCharactersMax) + "…";
  return Error{ErrorCode::kCompile, status, "compile " + file,
               "for " + device.info().name + ":\n" + log};
}

// Gives every argument a value that means "no work": pointers to `block`, zero scalars.
bool set_idle_arguments(const Device& device, const cl::Kernel& kernel, const cl::Buffer& block,
                        const void* svm_block) {
  const cl_uint count = kernel.getInfo<CL_KERNEL_NUM_ARGS>();
  constexpr std::array<std::byte, 128> kZeros{};
  for (cl_uint i = 0; i < count; ++i) {
    cl_kernel_arg_address_qualifier space = CL_KERNEL_ARG_ADDRESS_PRIVATE;
    if (clGetKernelArgInfo(kernel(), i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof space, &space,
                           nullptr) != CL_SUCCESS) {
      return false;
    }
    cl_int status = CL_INVALID_ARG_SIZE;
    if (space == CL_KERNEL_ARG_ADDRESS_LOCAL) {
      status = clSetKernelArg(kernel(), i, 256, nullptr);
    } else if (space == CL_KERNEL_ARG_ADDRESS_PRIVATE) {
      // Only the true size is accepted, and there is no way to ask for it.
      for (const std::size_t bytes : {4, 8, 2, 1, 16, 32, 64, 12, 24, 48, 128}) {
        status = clSetKernelArg(kernel(), i, bytes, kZeros.data());
        if (status == CL_SUCCESS) break;
      }
    } else if (svm_block != nullptr && device.at_least(2, 0)) {
      status = clSetKernelArgSVMPointer(kernel(), i, svm_block);
    } else {
      const cl_mem handle = block();
      status = clSetKernelArg(kernel(), i, sizeof(cl_mem), &handle);
    }
    if (status != CL_SUCCESS) return false;
  }
  return true;
}

Result<void> launch_idle(const Device& device, const cl::Kernel& kernel,
                         const WarmUpLaunch& launch) {
  const auto& local = launch.local;
  const std::size_t width =
      launch.wide ? (kWideGrid + local[0] - 1) / local[0] * local[0] : local[0];
  cl_int status = device.queue().enqueueNDRangeKernel(kernel, cl::NullRange,
                                                      cl::NDRange(width, local[1], local[2]),
                                                      cl::NDRange(local[0], local[1], local[2]));
  if (status == CL_SUCCESS) status = device.queue().finish();
  if (status == CL_SUCCESS) return {};
  return Error{ErrorCode::kDevice, status, "warm up kernel", std::string(launch.kernel)};
}

// How `kernel` is launched: at the size it requires, and as the manifest says.
std::vector<WarmUpLaunch> launches_of(const Device& device, const cl::Kernel& kernel,
                                      std::string_view name) {
  std::vector<WarmUpLaunch> launches;
  std::array<std::size_t, 3> required{};
  if (clGetKernelWorkGroupInfo(kernel(), device.device()(), CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                               sizeof required, required.data(), nullptr) == CL_SUCCESS &&
      required[0] != 0) {
    launches.push_back({name, required, false});
  }
  for (const WarmUpLaunch& launch : warm_up_launches()) {
    if (launch.kernel == name) launches.push_back(launch);
  }
  return launches;
}

}  // namespace

std::string build_options(const Device& device, ProgramSet set, const KernelNeeds& needs) {
  std::string options = "-cl-std=CL1.2 -cl-kernel-arg-info";
  cl_device_fp_config floats = 0;
  clGetDeviceInfo(device.device()(), CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, nullptr);
  if ((floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0) {
    options += " -cl-fp32-correctly-rounded-divide-sqrt";
  }
  options += device.info().mode == MemoryMode::kBuffers ? " -DMZ_POINTERS=0" : " -DMZ_POINTERS=1";
  if (device.info().fp16) options += " -DMZ_FP16=1";
  if (set == ProgramSet::kPortable || set == ProgramSet::kCpu) {
    options += needs_options(needs, device.info());
  }
  return options;
}

Result<cl::Program> build_from_source(const Device& device,
                                      const std::vector<KernelSource>& sources,
                                      const std::string& options) {
  if (sources.empty()) {
    return Error{ErrorCode::kInternal, 0, "compile program", "no kernel sources"};
  }
  // Compilers report positions in the file a line directive names. One string, because some of
  // them count lines over the whole program and not over its parts.
  std::string text;
  for (const KernelSource& source : sources) {
    text += "#line 1 \"" + std::string(source.name) + "\"\n" + std::string(source.text) + "\n";
  }
  cl_int status = CL_SUCCESS;
  cl::Program program(device.context(), text, false, &status);
  if (status != CL_SUCCESS) {
    return Error{ErrorCode::kDevice, status, "create program", device.info().name};
  }
  status = program.build({device.device()}, options.c_str());
  if (status != CL_SUCCESS) return compile_error(device, program, status, sources);
  return program;
}

Result<void> warm_up(const Device& device, const cl::Program& program) {
  std::vector<cl::Kernel> kernels;
  // createKernels is not const in all versions of the bindings; a handle is cheap to copy.
  cl::Program handle = program;
  cl_int status = handle.createKernels(&kernels);
  if (status != CL_SUCCESS) return Error{ErrorCode::kDevice, status, "create kernels", ""};
  std::vector<std::byte> ones(kWarmUpBytes, std::byte{1});
  const cl::Buffer block(device.context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, ones.size(),
                         ones.data(), &status);
  if (status != CL_SUCCESS) return Error{ErrorCode::kDevice, status, "create buffer", "warm-up"};
  const void* host_block = device.info().mode == MemoryMode::kHostMapping ? ones.data() : nullptr;
  for (const cl::Kernel& kernel : kernels) {
    std::string name = kernel.getInfo<CL_KERNEL_FUNCTION_NAME>();
    while (!name.empty() && name.back() == '\0') name.pop_back();
    const auto launches = launches_of(device, kernel, name);
    if (launches.empty() || !set_idle_arguments(device, kernel, block, host_block)) continue;
    for (const WarmUpLaunch& launch : launches) {
      if (auto launched = launch_idle(device, kernel, launch); !launched) return launched;
    }
  }
  return {};
}

}  // namespace mzcache::gpu
