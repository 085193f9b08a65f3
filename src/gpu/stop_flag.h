// The int that every kernel reads first.
#pragma once

#include <atomic>
#include <memory>

#include "gpu/device.h"

namespace mzcache::gpu {

// set() may come from any thread, at any time; it reaches the device without waiting for the
// compute queue. clear() only while nothing is enqueued.
class StopFlag {
 public:
  [[nodiscard]] static Result<std::unique_ptr<StopFlag>> create(const Device& device);
  ~StopFlag();
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  void set() noexcept { write(1); }
  void clear() noexcept { write(0); }
  [[nodiscard]] bool is_set() const noexcept { return host_.load(std::memory_order_acquire) != 0; }
  // Makes the flag argument `index` of a kernel.
  [[nodiscard]] cl_int set_argument(cl_kernel kernel, cl_uint index) const noexcept;

 private:
  explicit StopFlag(const Device& device) : device_(device) {}
  void write(int value) noexcept;

  // What the host believes; also the device's word where it reads host memory.
  alignas(64) std::atomic<int> host_{0};
  const Device& device_;
  std::atomic<int>* shared_ = nullptr;  // fine-grain SVM
  cl::Buffer buffer_;                   // neither: written through a queue of its own
  cl::CommandQueue side_queue_;
};

}  // namespace mzcache::gpu
