#include "gpu/stop_flag.h"

#include <array>
#include <new>

namespace mzcache::gpu {
namespace {

constexpr std::array<cl_int, 2> kValues{0, 1};

}  // namespace

Result<std::unique_ptr<StopFlag>> StopFlag::create(const Device& device) {
  static_assert(sizeof(std::atomic<int>) == sizeof(cl_int));
  std::unique_ptr<StopFlag> flag(new StopFlag(device));
  switch (device.info().mode) {
    case MemoryMode::kHostMapping:
      return flag;
    case MemoryMode::kFineSvm: {
      void* memory =
          clSVMAlloc(device.context()(), CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, 64, 0);
      if (memory == nullptr) return Error{ErrorCode::kNoMemory, 0, "allocate stop flag", ""};
      flag->shared_ = new (memory) std::atomic<int>(0);
      return flag;
    }
    case MemoryMode::kCoarseSvm:
    case MemoryMode::kBuffers:
      break;
  }
  cl_int status = CL_SUCCESS;
  cl_int zero = 0;
  flag->buffer_ = cl::Buffer(device.context(), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof zero,
                             &zero, &status);
  if (status != CL_SUCCESS) return Error{ErrorCode::kDevice, status, "create stop flag", ""};
  auto queue = device.create_queue(false);
  if (!queue) return queue.error();
  flag->side_queue_ = std::move(*queue);
  return flag;
}

StopFlag::~StopFlag() {
  if (shared_ != nullptr) clSVMFree(device_.context()(), shared_);
  if (side_queue_() != nullptr) (void)side_queue_.finish();
}

cl_int StopFlag::set_argument(cl_kernel kernel, cl_uint index) const noexcept {
  if (buffer_() != nullptr) {
    cl_mem memory = buffer_();
    return clSetKernelArg(kernel, index, sizeof(cl_mem), &memory);
  }
  const void* word = shared_ != nullptr ? static_cast<const void*>(shared_) : &host_;
  return clSetKernelArgSVMPointer(kernel, index, word);
}

void StopFlag::write(int value) noexcept {
  host_.store(value, std::memory_order_release);
  if (shared_ != nullptr) shared_->store(value, std::memory_order_release);
  if (buffer_() == nullptr) return;
  // A queue of its own, because the compute queue is busy exactly when this matters. Waited for, so
  // that whatever is enqueued afterwards sees the new value.
  (void)clEnqueueWriteBuffer(side_queue_(), buffer_(), CL_TRUE, 0, sizeof(cl_int),
                             &kValues[value != 0 ? 1 : 0], 0, nullptr, nullptr);
}

}  // namespace mzcache::gpu
