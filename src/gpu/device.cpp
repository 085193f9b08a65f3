#include "gpu/device.h"

#include <algorithm>

#include "gpu/device_discovery.h"
#include "gpu/host_pointer_probe.h"

namespace mzcache::gpu {
namespace {

std::string names_of(const std::vector<FoundDevice>& devices) {
  if (devices.empty()) {
    return "there is no OpenCL device (apt-get install pocl-opencl-icd for the processor as one; "
           "PoCL is none either where it may not write to ~/.cache or $POCL_CACHE_DIR)";
  }
  std::string names = "there are: ";
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (i > 0) names += ", ";
    names += devices[i].info.name + " (" + devices[i].info.platform + ")";
  }
  return names;
}

Result<void> check_kernels(const std::string& kernels) {
  if (kernels == "auto" || kernels == "portable" || kernels == "cpu" || kernels.empty()) return {};
  return Error{ErrorCode::kBadConfig, 0, "device.kernels",
               "\"" + kernels + "\" is none of auto, portable, cpu"};
}

Result<MemoryMode> forced_mode(const FoundDevice& found, const std::string& name) {
  const auto mode = parse_memory_mode(name);
  if (!mode) {
    return Error{ErrorCode::kBadArgument, 0, "force_memory",
                 "\"" + name + "\" is none of host-mapping, fine-svm, coarse-svm, buffers"};
  }
  const bool possible = (*mode == MemoryMode::kHostMapping && found.info.cpu &&
                         (found.svm_coarse || found.svm_fine)) ||
                        (*mode == MemoryMode::kFineSvm && found.svm_fine) ||
                        (*mode == MemoryMode::kCoarseSvm && found.svm_coarse) ||
                        *mode == MemoryMode::kBuffers;
  if (!possible) {
    return Error{ErrorCode::kUnsupported, 0, "force_memory",
                 found.info.name + " (SVM: " + found.info.svm + ") has no " + name};
  }
  return *mode;
}

// The set that was asked for, where it runs.
Result<void> choose_kernels(DeviceInfo& info, const FoundDevice& found,
                            const DeviceOptions& options) {
  const bool possible = found.cpu_kernels && info.mode == MemoryMode::kHostMapping;
  if (options.kernels == "cpu" && !possible) {
    return Error{ErrorCode::kUnsupported, 0, "device.kernels",
                 "\"cpu\" needs PoCL on an x86 processor with AVX2, which " + info.name +
                     " (memory: " + memory_mode_name(info.mode) + ") is not",
                 "device.kernels"};
  }
  info.kernels = possible && options.kernels != "portable" ? "cpu" : "portable";
  return {};
}

Error device_error(cl_int status, const char* operation, const std::string& device) {
  return Error{ErrorCode::kDevice, status, operation, device};
}

}  // namespace

Result<cl::CommandQueue> Device::create_queue(bool profiling) const {
  cl_int status = CL_SUCCESS;
  cl_command_queue queue = nullptr;
  const cl_command_queue_properties flags = profiling ? CL_QUEUE_PROFILING_ENABLE : 0;
  if (at_least(2, 0)) {
    const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, flags, 0};
    queue = clCreateCommandQueueWithProperties(context_(), device_(), properties, &status);
  } else {
    queue = clCreateCommandQueue(context_(), device_(), flags, &status);
  }
  if (status != CL_SUCCESS) return device_error(status, "create command queue", info_.name);
  return cl::CommandQueue(queue);
}

void Device::add_notice(std::string text) {
  if (std::find(notices_.begin(), notices_.end(), text) == notices_.end()) {
    notices_.push_back(std::move(text));
  }
}

Result<std::unique_ptr<Device>> Device::open(const DeviceOptions& options) {
  if (auto checked = check_kernels(options.kernels); !checked) return checked.error();
  auto pinned = prepare_worker_affinity(options.pin_workers);
  if (!pinned) return pinned.error();
  const UnpinnedScope unpinned;

  const auto devices = find_devices();
  const FoundDevice* found = choose_device(devices, options.name);
  if (found == nullptr) {
    const bool named = !options.name.empty() && !devices.empty();
    return Error{ErrorCode::kNotFound, 0, named ? "device.name" : "open device",
                 (named ? "no device's name contains \"" + options.name + "\"; " : std::string()) +
                     names_of(devices),
                 named ? "device.name" : ""};
  }
  std::unique_ptr<Device> device(new Device);
  device->info_ = found->info;
  device->device_ = found->device;
  device->version_ = found->version;
  if (!pinned->empty()) device->add_notice(std::move(*pinned));

  cl_int status = CL_SUCCESS;
  device->context_ = cl::Context(found->device, nullptr, nullptr, nullptr, &status);
  if (status != CL_SUCCESS) return device_error(status, "create context", found->info.name);
  auto queue = device->create_queue(true);
  if (!queue) return queue.error();
  device->queue_ = std::move(*queue);

  if (!options.force_memory.empty()) {
    auto mode = forced_mode(*found, options.force_memory);
    if (!mode) return mode.error();
    device->info_.mode = *mode;
  } else if (device->info_.mode == MemoryMode::kHostMapping &&
             !host_pointers_work(*device, {options.cache_directory, options.compiler})) {
    device->info_.mode = found->svm_fine ? MemoryMode::kFineSvm : MemoryMode::kCoarseSvm;
    device->add_notice(found->info.name +
                       " cannot reach plain host memory through pointers: using " +
                       memory_mode_name(device->info_.mode));
  }
  if (options.float_width_max != 0 && options.float_width_max < device->info_.float_width) {
    device->info_.float_width = options.float_width_max;
    device->info_.dot_products = false;
  }
  if (auto chosen = choose_kernels(device->info_, *found, options); !chosen) return chosen.error();
  return device;
}

}  // namespace mzcache::gpu
