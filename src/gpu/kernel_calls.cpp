#include "gpu/kernel_calls.h"

#include <utility>

namespace mzcache::gpu {

Result<std::unique_ptr<KernelCalls>> KernelCalls::create(const Device& device,
                                                         const Kernels& kernels,
                                                         const StopFlag& stop,
                                                         std::uint32_t operations) {
  if (device.info().kernels == "cpu") return create_cpu_calls(device, kernels, stop, operations);
  return create_portable_calls(device, kernels, stop);
}

void KernelCalls::begin_events(bool wanted) {
  events_wanted_ = wanted;
  first_ = cl::Event();
  last_ = cl::Event();
}

void KernelCalls::keep_event(cl_event event) {
  last_ = cl::Event(event);
  if (first_() == nullptr) first_ = last_;
}

void KernelCalls::marker() {
  cl_event event = nullptr;
  const cl_int status = clEnqueueMarkerWithWaitList(device_.queue()(), 0, nullptr, &event);
  if (status != CL_SUCCESS) return fail(status, "enqueue marker", "");
  keep_event(event);
}

Result<void> KernelCalls::take_status() {
  if (status_ == CL_SUCCESS) return {};
  status_ = CL_SUCCESS;
  return std::exchange(error_, {});
}

void KernelCalls::fail(cl_int status, const char* operation, const char* context) {
  if (status_ != CL_SUCCESS) return;
  status_ = status;
  error_ = {ErrorCode::kDevice, status, operation, context};
}

void KernelCalls::enqueue(cl_kernel kernel, const std::array<std::size_t, 3>& grid,
                          const char* name) {
  constexpr std::array<std::size_t, 3> kLocal{1, 1, 1};
  cl_event event = nullptr;
  const cl_int status =
      clEnqueueNDRangeKernel(device_.queue()(), kernel, 3, nullptr, grid.data(), kLocal.data(), 0,
                             nullptr, events_wanted_ ? &event : nullptr);
  if (status != CL_SUCCESS) return fail(status, "enqueue kernel", name);
  if (event != nullptr) keep_event(event);
}

bool KernelCalls::packed_before(const ScratchBuffer& x, std::uint32_t form) {
  const bool before = packed_from_ == &x && packed_form_ == form;
  packed_from_ = &x;
  packed_form_ = form;
  return before;
}

void KernelCalls::begin_slice(bool) { packed_from_ = nullptr; }

void KernelCalls::read(const ScratchBuffer& from, void* to, std::uint64_t bytes) {
  if (failed()) return;
  launch();
  cl_event event = nullptr;
  const cl_int status = clEnqueueReadBuffer(device_.queue()(), from.memory(), CL_FALSE, 0, bytes,
                                            to, 0, nullptr, events_wanted_ ? &event : nullptr);
  if (status != CL_SUCCESS) return fail(status, "read logits", "");
  if (event != nullptr) keep_event(event);
}

}  // namespace mzcache::gpu
