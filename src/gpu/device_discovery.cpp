#include "gpu/device_discovery.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

namespace mzcache::gpu {
namespace {

std::string lowercase(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// "OpenCL 3.0 PoCL" → 300; 0 where the text is something else.
unsigned parse_version(const std::string& text) {
  unsigned major = 0;
  unsigned minor = 0;
  if (std::sscanf(text.c_str(), "OpenCL %u.%u", &major, &minor) != 2) return 0;  // NOLINT(cert-*)
  return major * 100 + minor * 10;
}

template <cl_device_info kName>
auto value_of(const cl::Device& device) {
  return device.getInfo<kName>();
}

// Drivers pad names with blanks and end them with NUL.
std::string trimmed(std::string text) {
  while (!text.empty() &&
         (text.back() == '\0' || std::isspace(static_cast<unsigned char>(text.back())))) {
    text.pop_back();
  }
  const auto first =
      std::find_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c) == 0; });
  text.erase(text.begin(), first);
  return text;
}

void read_svm(FoundDevice& found) {
  found.info.svm = "none";
  if (found.version < 200) return;  // the query is newer than the device
  const auto svm = value_of<CL_DEVICE_SVM_CAPABILITIES>(found.device);
  found.svm_coarse = (svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0;
  found.svm_fine = (svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
  if ((svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) != 0) {
    found.info.svm = "fine-grain system";
  } else if (found.svm_fine) {
    found.info.svm = "fine-grain buffer";
  } else if (found.svm_coarse) {
    found.info.svm = "coarse-grain";
  }
}

MemoryMode mode_by_capability(const FoundDevice& found) {
  const bool svm = found.svm_coarse || found.svm_fine;
  if (found.info.cpu && svm) return MemoryMode::kHostMapping;
  if (found.svm_fine) return MemoryMode::kFineSvm;
  if (found.svm_coarse) return MemoryMode::kCoarseSvm;
  return MemoryMode::kBuffers;
}

// The CPU set is written for x86 and for PoCL, which compiles with clang for the processor it runs
// on.
void choose_kernels(FoundDevice& found) {
  DeviceInfo& info = found.info;
  info.kernels = "portable";
#if defined(__x86_64__)
  found.cpu_kernels = info.cpu && info.mode == MemoryMode::kHostMapping &&
                      info.platform == "Portable Computing Language" && info.float_width >= 8 &&
                      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                      __builtin_cpu_supports("f16c") != 0;
  if (!found.cpu_kernels) return;
  info.kernels = "cpu";
  info.dot_products = info.float_width >= 16 && __builtin_cpu_supports("avx512vnni") != 0 &&
                      __builtin_cpu_supports("avx512vl") != 0;
#endif
}

FoundDevice describe(const cl::Device& device, const std::string& platform) {
  FoundDevice found;
  found.device = device;
  DeviceInfo& info = found.info;
  info.platform = platform;
  info.name = trimmed(value_of<CL_DEVICE_NAME>(device));
  info.version = trimmed(value_of<CL_DEVICE_VERSION>(device));
  info.driver = trimmed(value_of<CL_DRIVER_VERSION>(device));
  found.version = parse_version(info.version);
  const auto type = value_of<CL_DEVICE_TYPE>(device);
  info.cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
  found.gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
  cl_bool unified = CL_FALSE;
  clGetDeviceInfo(device(), CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified, nullptr);
  info.shares_memory = info.cpu || unified == CL_TRUE;
  const std::string extensions = value_of<CL_DEVICE_EXTENSIONS>(device);
  info.fp16 = extensions.find("cl_khr_fp16") != std::string::npos;
  info.subgroups = extensions.find("cl_khr_subgroups") != std::string::npos ||
                   extensions.find("cl_intel_subgroups") != std::string::npos;
  info.compute_units = value_of<CL_DEVICE_MAX_COMPUTE_UNITS>(device);
  info.float_width =
      std::max<std::uint32_t>(1, value_of<CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT>(device));
  info.allocation_bytes_max = value_of<CL_DEVICE_MAX_MEM_ALLOC_SIZE>(device);
  read_svm(found);
  info.mode = mode_by_capability(found);
  choose_kernels(found);
  return found;
}

int rank(const FoundDevice& found) {
  if (found.gpu && (found.svm_coarse || found.svm_fine)) return 3;
  return found.info.cpu ? 1 : 2;
}

}  // namespace

std::vector<FoundDevice> find_devices() {
  std::vector<FoundDevice> found;
  std::vector<cl::Platform> platforms;
  if (cl::Platform::get(&platforms) != CL_SUCCESS) return found;
  for (const cl::Platform& platform : platforms) {
    std::vector<cl::Device> devices;
    if (platform.getDevices(CL_DEVICE_TYPE_ALL, &devices) != CL_SUCCESS) continue;
    const std::string name = trimmed(platform.getInfo<CL_PLATFORM_NAME>());
    for (const cl::Device& device : devices) found.push_back(describe(device, name));
  }
  return found;
}

const FoundDevice* choose_device(const std::vector<FoundDevice>& devices, std::string_view name) {
  const std::string wanted = lowercase(name);
  const FoundDevice* best = nullptr;
  // One device's name may be part of another's: the whole name wins.
  for (const FoundDevice& found : devices) {
    if (!wanted.empty() && lowercase(found.info.name) == wanted) return &found;
  }
  for (const FoundDevice& found : devices) {
    const bool matches = wanted.empty() ||
                         lowercase(found.info.name).find(wanted) != std::string::npos ||
                         lowercase(found.info.platform).find(wanted) != std::string::npos;
    if (matches && (best == nullptr || rank(found) > rank(*best))) best = &found;
  }
  return best;
}

std::optional<MemoryMode> parse_memory_mode(std::string_view name) noexcept {
  for (const MemoryMode mode : {MemoryMode::kHostMapping, MemoryMode::kFineSvm,
                                MemoryMode::kCoarseSvm, MemoryMode::kBuffers}) {
    if (name == memory_mode_name(mode)) return mode;
  }
  return std::nullopt;
}

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> infos;
  std::vector<FoundDevice> devices = find_devices();
  std::stable_sort(devices.begin(), devices.end(),
                   [](const FoundDevice& a, const FoundDevice& b) { return rank(a) > rank(b); });
  infos.reserve(devices.size());
  for (const FoundDevice& found : devices) infos.push_back(found.info);
  return infos;
}

}  // namespace mzcache::gpu
