// Runs single kernels: device buffers from vectors and back.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "gpu/forward_harness.h"
#include "gpu/kernel_calls.h"
#include "gpu/reference_kernels.h"
#include "support/catch.h"

namespace mzcache::test {

class KernelBench {
 public:
  explicit KernelBench(const Setting& setting = {})
      : open_(open_device(setting)),
        stop(value_or_throw(gpu::StopFlag::create(*open_.device))),
        calls(value_or_throw(gpu::KernelCalls::create(*open_.device, open_.kernels, *stop))) {}

  [[nodiscard]] const gpu::Device& device() const { return *open_.device; }

  template <class T>
  [[nodiscard]] gpu::ScratchBuffer buffer(const std::vector<T>& values) {
    gpu::ScratchBuffer buffer;
    REQUIRE(buffer.resize(device(), values.size() * sizeof(T)));
    REQUIRE(buffer.upload(device(), 0, std::as_bytes(std::span(values))));
    device().queue().finish();
    return buffer;
  }
  [[nodiscard]] gpu::ScratchBuffer buffer(std::size_t floats) {
    return buffer(std::vector<float>(floats, 1e30F));
  }
  [[nodiscard]] std::vector<float> read(const gpu::ScratchBuffer& buffer, std::size_t floats) {
    std::vector<float> values(floats);
    calls->read(buffer, values.data(), floats * sizeof(float));
    REQUIRE(calls->take_status());
    REQUIRE(device().queue().finish() == CL_SUCCESS);
    return values;
  }
  // Bytes as a unit that kernels reach; keep the result alive.
  struct Unit {
    std::vector<std::byte> bytes;
    cl::Buffer buffer;
    gpu::KernelAddress address;
  };
  [[nodiscard]] std::unique_ptr<Unit> unit(std::vector<std::byte> bytes) {
    auto unit = std::make_unique<Unit>();
    // A kernel that reads past the last tensor meets NaNs.
    bytes.resize(bytes.size() + 256, std::byte{0xFF});
    unit->bytes = std::move(bytes);
    if (device().info().mode == gpu::MemoryMode::kBuffers) {
      unit->buffer = cl::Buffer(device().context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                unit->bytes.size(), unit->bytes.data());
      unit->address.buffer = unit->buffer();
    } else {
      unit->address.pointer = unit->bytes.data();
    }
    return unit;
  }

 private:
  OpenDevice& open_;

 public:
  std::unique_ptr<gpu::StopFlag> stop;
  std::unique_ptr<gpu::KernelCalls> calls;
};

inline std::vector<double> doubles(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// Largest |a − b|.
template <class A, class B>
double largest_difference(const A& a, const B& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= largest)) largest = difference;  // NaN counts
  }
  return largest;
}

}  // namespace mzcache::test
