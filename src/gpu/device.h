// The OpenCL device: found by name or best available, opened once, with what it can do.
// Only files of this room include this header (it brings OpenCL's).
#pragma once

// The headers' run-time dispatch for a minimum of 1.2 does not compile everywhere, so we ask
// for 2.0 and keep to two rules that let 1.2 devices work: queues are created by Device alone, and
// entry points newer than 1.2 (SVM) are called only where Device::at_least(2, 0) says so.
#define CL_HPP_TARGET_OPENCL_VERSION 300
#define CL_HPP_MINIMUM_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/opencl.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/device_info.h"
#include "mzcache/errors.h"

namespace mzcache::gpu {

// An open device with its in-order queue (profiling enabled). Immutable once opened, except for
// notices; the OpenCL objects themselves may be used from any thread.
class Device {
 public:
  // kNotFound lists the devices there are. Sets POCL_AFFINITY first where pin_workers allows it.
  [[nodiscard]] static Result<std::unique_ptr<Device>> open(const DeviceOptions& options);

  [[nodiscard]] const DeviceInfo& info() const noexcept { return info_; }
  [[nodiscard]] const cl::Context& context() const noexcept { return context_; }
  [[nodiscard]] const cl::Device& device() const noexcept { return device_; }
  [[nodiscard]] const cl::CommandQueue& queue() const noexcept { return queue_; }
  // Whether the device's OpenCL version is at least major.minor.
  [[nodiscard]] bool at_least(unsigned major, unsigned minor) const noexcept {
    return version_ >= major * 100 + minor * 10;
  }
  // Another in-order queue of the same device, for transfers that must not wait for compute.
  [[nodiscard]] Result<cl::CommandQueue> create_queue(bool profiling) const;
  // What a person should be told once: a setting that could not be honoured, a fallback taken.
  // Appended to while the device, its memory and its program are set up, by one thread.
  [[nodiscard]] const std::vector<std::string>& notices() const noexcept { return notices_; }
  void add_notice(std::string text);  // said once, however often it is added

 private:
  Device() = default;
  DeviceInfo info_;
  cl::Context context_;
  cl::Device device_;
  cl::CommandQueue queue_;
  unsigned version_ = 0;  // 120, 300
  std::vector<std::string> notices_;
};

}  // namespace mzcache::gpu
