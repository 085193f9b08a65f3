#include "gpu/host_pointer_probe.h"

#include <sys/mman.h>

#include "gpu/program_build.h"

namespace mzcache::gpu {
namespace {

constexpr std::string_view kProbe = R"CL(
__attribute__((reqd_work_group_size(1, 1, 1)))
kernel void mz_probe(global const ulong* table, global uint* out, uint count) {
  for (uint i = 0; i < count; ++i) out[i] = *(global const uint*)table[i] + i;
}
)CL";

constexpr std::size_t kPageBytes = 4096;
constexpr cl_uint kPages = 4;  // the table, the results and two values

bool probe(Device& device, cl::Program& program, std::byte* pages) {
  auto* table = reinterpret_cast<cl_ulong*>(pages);
  auto* out = reinterpret_cast<cl_uint*>(pages + kPageBytes);
  for (cl_uint i = 0; i < 2; ++i) {
    auto* value = reinterpret_cast<cl_uint*>(pages + (2 + i) * kPageBytes);
    *value = 4000 + i;
    table[i] = reinterpret_cast<cl_ulong>(value);
  }
  cl_int status = CL_SUCCESS;
  cl::Kernel kernel(program, "mz_probe", &status);
  if (status != CL_SUCCESS) return false;
  if (clSetKernelArgSVMPointer(kernel(), 0, table) != CL_SUCCESS) return false;
  if (clSetKernelArgSVMPointer(kernel(), 1, out) != CL_SUCCESS) return false;
  if (kernel.setArg(2, cl_uint{2}) != CL_SUCCESS) return false;
  const cl::CommandQueue& queue = device.queue();
  if (queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(1), cl::NDRange(1)) !=
      CL_SUCCESS) {
    return false;
  }
  return queue.finish() == CL_SUCCESS && out[0] == 4000 && out[1] == 4002;
}

}  // namespace

const std::vector<KernelSource>& host_pointer_probe_sources() {
  static const std::vector<KernelSource> sources = {{"probe.cl", kProbe}};
  return sources;
}

bool host_pointers_work(Device& device, const ProgramOptions& options) {
  auto program = load_program_set(device, options, ProgramSet::kProbe);
  if (!program) return false;
  void* pages = mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return false;
  const bool works = probe(device, *program, static_cast<std::byte*>(pages));
  munmap(pages, kPages * kPageBytes);
  return works;
}

}  // namespace mzcache::gpu
