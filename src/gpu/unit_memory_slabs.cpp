#include "gpu/unit_memory_slabs.h"

namespace mzcache::gpu {
namespace {

Error memory_error(cl_int status, const char* operation, std::uint64_t bytes) {
  const bool full = status == CL_OUT_OF_RESOURCES || status == CL_OUT_OF_HOST_MEMORY ||
                    status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_SUCCESS;
  return Error{full ? ErrorCode::kNoMemory : ErrorCode::kDevice, status, operation,
               std::to_string(bytes) + " bytes"};
}

class SvmSlab final : public DeviceSlab {
 public:
  SvmSlab(const cl::Context& context, const cl::CommandQueue& transfers, void* allocation,
          bool coarse)
      : context_(context), transfers_(transfers), allocation_(allocation), coarse_(coarse) {
    const auto address = reinterpret_cast<std::uint64_t>(allocation);
    host_ = static_cast<std::byte*>(allocation) +
            (actors::align_up(address, actors::kBlockAlignment) - address);
  }
  ~SvmSlab() override { clSVMFree(context_(), allocation_); }

  [[nodiscard]] std::byte* host() const noexcept override { return host_; }
  [[nodiscard]] bool zeroed() const noexcept override { return false; }

  Result<void> open(std::uint64_t offset, std::uint64_t bytes) override {
    if (!coarse_) return {};
    const cl_int status = clEnqueueSVMMap(transfers_(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                          host_ + offset, bytes, 0, nullptr, nullptr);
    if (status != CL_SUCCESS) return memory_error(status, "map shared memory", bytes);
    return {};
  }

  void close(std::uint64_t offset) noexcept override {
    if (!coarse_) return;
    // Compute runs on another queue, so the unmapping must be over when this returns.
    (void)clEnqueueSVMUnmap(transfers_(), host_ + offset, 0, nullptr, nullptr);
    (void)clFinish(transfers_());
  }

  [[nodiscard]] KernelAddress address(std::uint64_t offset) const noexcept override {
    return {host_ + offset, nullptr, 0};
  }

 private:
  const cl::Context context_;
  const cl::CommandQueue transfers_;
  void* const allocation_;
  const bool coarse_;
  std::byte* host_ = nullptr;
};

class BufferSlab final : public DeviceSlab {
 public:
  BufferSlab(const cl::CommandQueue& transfers, std::span<std::byte> range, cl_mem buffer)
      : transfers_(transfers), range_(range), buffer_(buffer) {}
  ~BufferSlab() override {
    clReleaseMemObject(buffer_);
    release_pages(range_.data(), range_.size());
  }

  [[nodiscard]] std::byte* host() const noexcept override { return range_.data(); }
  [[nodiscard]] bool zeroed() const noexcept override { return true; }

  Result<void> open(std::uint64_t offset, std::uint64_t bytes) override {
    cl_int status = CL_SUCCESS;
    void* view = clEnqueueMapBuffer(transfers_(), buffer_, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                    offset, bytes, 0, nullptr, nullptr, &status);
    if (status != CL_SUCCESS) return memory_error(status, "map buffer", bytes);
    if (view != range_.data() + offset) {
      (void)clEnqueueUnmapMemObject(transfers_(), buffer_, view, 0, nullptr, nullptr);
      return Error{ErrorCode::kUnsupported, 0, "map buffer",
                   "the driver maps a CL_MEM_USE_HOST_PTR buffer elsewhere"};
    }
    return {};
  }

  void close(std::uint64_t offset) noexcept override {
    (void)clEnqueueUnmapMemObject(transfers_(), buffer_, range_.data() + offset, 0, nullptr,
                                  nullptr);
    (void)clFinish(transfers_());
  }

  [[nodiscard]] KernelAddress address(std::uint64_t offset) const noexcept override {
    return {nullptr, buffer_, offset};
  }

 private:
  const cl::CommandQueue transfers_;
  const std::span<std::byte> range_;
  const cl_mem buffer_;
};

}  // namespace

Result<std::unique_ptr<DeviceSlab>> create_svm_slab(const Device& device,
                                                    const cl::CommandQueue& transfers,
                                                    std::uint64_t bytes) {
  const bool coarse = device.info().mode == MemoryMode::kCoarseSvm;
  const cl_svm_mem_flags flags =
      CL_MEM_READ_WRITE | (coarse ? cl_svm_mem_flags{0} : CL_MEM_SVM_FINE_GRAIN_BUFFER);
  // Devices refuse alignments as large as direct I/O wants: take a block more and round up.
  void* allocation = clSVMAlloc(device.context()(), flags, bytes + actors::kBlockAlignment, 0);
  if (allocation == nullptr) return memory_error(CL_SUCCESS, "allocate shared memory", bytes);
  return std::unique_ptr<DeviceSlab>(
      std::make_unique<SvmSlab>(device.context(), transfers, allocation, coarse));
}

Result<std::unique_ptr<DeviceSlab>> create_buffer_slab(const Device& device,
                                                       const cl::CommandQueue& transfers,
                                                       std::span<std::byte> range, bool huge,
                                                       const PopulateFault& fault) {
  auto populated = populate_pages(range.data(), range.size(), huge, fault);
  if (!populated) return populated.error();
  cl_int status = CL_SUCCESS;
  cl_mem buffer = clCreateBuffer(device.context()(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                 range.size(), range.data(), &status);
  if (status != CL_SUCCESS) {
    release_pages(range.data(), range.size());
    return memory_error(status, "create buffer", range.size());
  }
  return std::unique_ptr<DeviceSlab>(std::make_unique<BufferSlab>(transfers, range, buffer));
}

}  // namespace mzcache::gpu
