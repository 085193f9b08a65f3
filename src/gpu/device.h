// The OpenCL device: found by name or best available, opened once, with what it can do.
// Only files of this room include this header (it brings OpenCL's).
#pragma once

#define CL_HPP_TARGET_OPENCL_VERSION 300
#define CL_HPP_MINIMUM_OPENCL_VERSION 120
#include <CL/opencl.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/device_info.h"
#include "mzcache/errors.h"

namespace mzcache::gpu {

// An open device with its in-order queue (profiling enabled).
class Device {
 public:
  // kNotFound lists the devices there are. Sets POCL_AFFINITY first where pin_workers allows it.
  [[nodiscard]] static Result<std::unique_ptr<Device>> open(const DeviceOptions& options);

  [[nodiscard]] const DeviceInfo& info() const noexcept { return info_; }
  [[nodiscard]] const cl::Context& context() const noexcept { return context_; }
  [[nodiscard]] const cl::Device& device() const noexcept { return device_; }
  [[nodiscard]] const cl::CommandQueue& queue() const noexcept { return queue_; }

 private:
  DeviceInfo info_;
  cl::Context context_;
  cl::Device device_;
  cl::CommandQueue queue_;
};

}  // namespace mzcache::gpu
