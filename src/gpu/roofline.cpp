#include "gpu/roofline.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "gpu/program_build.h"
#include "gpu/scratch.h"

namespace mzcache::gpu {
namespace {

constexpr std::string_view kProbes = R"CL(
#define MZ_KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1)))
#define MZ_TWELVE(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)

// 12 independent chains, more than any processor has latency to fill: of 8 lanes, because all of
// them fit the registers there are without AVX-512, and of 16.
#define MZ_ZERO(I) MZ_LANES a##I = (MZ_LANES)(1.0f + I);
#define MZ_STEP(I) a##I = a##I * x + y;
#define MZ_ADD(I) sum += a##I;
#define MZ_PROBE_FMA                                                             \
  const MZ_LANES x = (MZ_LANES)(0.999f + 1e-9f * (float)get_global_id(0));       \
  const MZ_LANES y = (MZ_LANES)(1e-7f);                                          \
  MZ_TWELVE(MZ_ZERO)                                                             \
  for (uint i = 0; i < steps; ++i) { MZ_TWELVE(MZ_STEP) }                        \
  MZ_LANES sum = (MZ_LANES)(0.0f);                                               \
  MZ_TWELVE(MZ_ADD)
#pragma OPENCL FP_CONTRACT ON
#define MZ_LANES float8
MZ_KERNEL void mz_probe_fma_8(__global float* out, uint steps) {
  MZ_PROBE_FMA
  vstore8(sum, get_global_id(0), out);
}
#undef MZ_LANES
#define MZ_LANES float16
MZ_KERNEL void mz_probe_fma_16(__global float* out, uint steps) {
  MZ_PROBE_FMA
  vstore16(sum, get_global_id(0), out);
}

// `vectors` of 64 bytes for each work-item, one after another.
MZ_KERNEL void mz_probe_read(__global const uint16* in, __global uint* out, uint vectors) {
  __global const uint16* from = in + (size_t)get_global_id(0) * vectors;
  uint16 a = (uint16)(0u), b = a, c = a, d = a;
  for (uint i = 0; i + 4 <= vectors; i += 4) {
    a ^= from[i];
    b ^= from[i + 1];
    c ^= from[i + 2];
    d ^= from[i + 3];
  }
  vstore16(a ^ b ^ c ^ d, get_global_id(0), out);
}
)CL";

constexpr std::uint64_t kReadBytes = std::uint64_t{256} << 20;
constexpr std::uint32_t kReadItems = 1024;
constexpr std::uint32_t kSteps = 100'000;
constexpr int kRounds = 5;

// The shortest of some runs, in seconds.
Result<double> best_time(const Device& device, const cl::Kernel& kernel, std::size_t items) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    cl_int status = device.queue().enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(items),
                                                        cl::NDRange(1));
    if (status == CL_SUCCESS) status = device.queue().finish();
    if (status != CL_SUCCESS) return Error{ErrorCode::kDevice, status, "probe the device", ""};
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

template <class... Arguments>
Result<cl::Kernel> make_kernel(const cl::Program& program, const char* name,
                               const Arguments&... arguments) {
  cl_int status = CL_SUCCESS;
  cl::Kernel kernel(program, name, &status);
  cl_uint index = 0;
  ((status = status == CL_SUCCESS ? kernel.setArg(index++, arguments) : status), ...);
  if (status != CL_SUCCESS) return Error{ErrorCode::kDevice, status, "create kernel", name};
  return kernel;
}

}  // namespace

const std::vector<KernelSource>& roofline_sources() {
  static const std::vector<KernelSource> sources = {{"roofline.cl", kProbes}};
  return sources;
}

Result<Roofline> measure_roofline(Device& device, const ProgramOptions& options) {
  auto program = load_program_set(device, options, ProgramSet::kRoofline);
  if (!program) return program.error();
  ScratchBuffer data;
  ScratchBuffer out;
  if (auto ok = data.resize(device, kReadBytes); !ok) return ok.error();
  if (auto ok = out.resize(device, std::uint64_t{kReadItems} * 64); !ok) return ok.error();
  const std::size_t fma_items = std::size_t{4} * std::max(1U, device.info().compute_units);
  const cl::Buffer in_buffer(data.memory(), true);
  const cl::Buffer out_buffer(out.memory(), true);
  const auto vectors = static_cast<cl_uint>(kReadBytes / 64 / kReadItems);
  auto read = make_kernel(*program, "mz_probe_read", in_buffer, out_buffer, vectors);
  if (!read) return read.error();
  double operations_per_s = 0;
  for (const auto& [name, lanes] : {std::pair{"mz_probe_fma_8", 8}, {"mz_probe_fma_16", 16}}) {
    auto fma = make_kernel(*program, name, out_buffer, cl_uint{kSteps});
    if (!fma) return fma.error();
    auto fma_s = best_time(device, *fma, fma_items);
    if (!fma_s) return fma_s.error();
    const double operations = 12.0 * lanes * 2 * kSteps * static_cast<double>(fma_items);
    operations_per_s = std::max(operations_per_s, operations / *fma_s);
  }
  auto read_s = best_time(device, *read, kReadItems);
  if (!read_s) return read_s.error();
  return Roofline{operations_per_s, static_cast<double>(kReadBytes) / *read_s};
}

}  // namespace mzcache::gpu
