#include "gpu/kernel_calls.h"

#include <algorithm>
#include <utility>

namespace mzcache::gpu {
namespace {

// In the order of KernelCalls::Name.
constexpr std::array<const char*, 11> kNames = {
    "mz_embed",       "mz_rms_norm",   "mz_matmul_row", "mz_matmul_few",      "mz_pack",
    "mz_matmul_many", "mz_rope_store", "mz_attention",  "mz_attention_merge", "mz_gate",
    "mz_softcap"};

// Constants of the kernels: how much one work-item does.
constexpr std::uint32_t kPackTokens = 32;
constexpr std::uint32_t kPackColumns = 64;
constexpr std::uint32_t kManyRows = 32;
constexpr std::uint32_t kManyTokens = 128;
constexpr std::uint32_t kAttentionRows = 8;
constexpr std::uint32_t kElementwiseValues = 1024;
constexpr std::uint32_t kAdd = 1;
constexpr std::uint32_t kBias = 2;

constexpr std::size_t divide_up(std::uint64_t value, std::uint64_t by) {
  return static_cast<std::size_t>((value + by - 1) / by);
}

// Rows of one work-item: about 64 of them where the matrix is small, so that the cores share it
// evenly, and at most `most`, in whole `step`s.
std::uint32_t rows_per_item(std::uint32_t rows, std::uint32_t step, std::uint32_t most) {
  return std::clamp(rows / 64 / step * step, step, most);
}

std::uint32_t flags_of(const DeviceTensor& weight, bool add) {
  return (add ? kAdd : 0) | (weight.has_bias ? kBias : 0);
}

std::uint32_t type_of(const DeviceTensor& weight) {
  return static_cast<std::uint32_t>(weight.view.type);
}

}  // namespace

Result<std::unique_ptr<KernelCalls>> KernelCalls::create(const Device& device,
                                                         const cl::Program& program,
                                                         const StopFlag& stop) {
  static_assert(kNames.size() == static_cast<std::size_t>(Name::kCount));
  std::unique_ptr<KernelCalls> calls(new KernelCalls(device));
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    cl_int status = CL_SUCCESS;
    calls->kernels_[i] = cl::Kernel(program, kNames[i], &status);
    if (status == CL_SUCCESS) status = stop.set_argument(calls->kernels_[i](), 0);
    if (status != CL_SUCCESS) return Error{ErrorCode::kDevice, status, "create kernel", kNames[i]};
  }
  return calls;
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
  if (status != CL_SUCCESS) return fail(status, "enqueue marker", Name::kCount);
  keep_event(event);
}

Result<void> KernelCalls::take_status() {
  if (status_ == CL_SUCCESS) return {};
  status_ = CL_SUCCESS;
  return std::exchange(error_, {});
}

void KernelCalls::fail(cl_int status, const char* operation, Name name) {
  if (status_ != CL_SUCCESS) return;
  status_ = status;
  error_ = {ErrorCode::kDevice, status, operation,
            name == Name::kCount ? "" : kNames[static_cast<std::size_t>(name)]};
}

void KernelCalls::set(cl_kernel kernel, cl_uint index, std::uint32_t value) {
  note(clSetKernelArg(kernel, index, sizeof value, &value));
}
void KernelCalls::set(cl_kernel kernel, cl_uint index, std::uint64_t value) {
  note(clSetKernelArg(kernel, index, sizeof value, &value));
}
void KernelCalls::set(cl_kernel kernel, cl_uint index, float value) {
  note(clSetKernelArg(kernel, index, sizeof value, &value));
}
void KernelCalls::set(cl_kernel kernel, cl_uint index, const ScratchBuffer& buffer) {
  cl_mem memory = buffer.memory();
  note(clSetKernelArg(kernel, index, sizeof(cl_mem), &memory));
}
void KernelCalls::set(cl_kernel kernel, cl_uint index, const KernelAddress& address) {
  if (device_.info().mode == MemoryMode::kBuffers) {
    cl_mem memory = address.buffer;
    note(clSetKernelArg(kernel, index, sizeof(cl_mem), &memory));
  } else {
    note(clSetKernelArgSVMPointer(kernel, index, address.pointer));
  }
}

template <class... Arguments>
void KernelCalls::call(Name name, const Grid& grid, const Arguments&... arguments) {
  if (status_ != CL_SUCCESS) return;
  cl_kernel kernel = kernels_[static_cast<std::size_t>(name)]();
  cl_uint index = 0;
  (set(kernel, ++index, arguments), ...);
  if (const cl_int status = std::exchange(status_, CL_SUCCESS); status != CL_SUCCESS) {
    return fail(status, "set kernel arguments", name);
  }
  constexpr Grid kLocal{1, 1, 1};
  cl_event event = nullptr;
  const cl_int status =
      clEnqueueNDRangeKernel(device_.queue()(), kernel, 3, nullptr, grid.data(), kLocal.data(), 0,
                             nullptr, events_wanted_ ? &event : nullptr);
  if (status != CL_SUCCESS) return fail(status, "enqueue kernel", name);
  if (event != nullptr) keep_event(event);
}

void KernelCalls::declare_pointers(const std::vector<const void*>& pointers) {
  if (pointers.empty()) return;
  for (const Name name : {Name::kRopeStore, Name::kAttention}) {
    const cl_int status = clSetKernelExecInfo(kernels_[static_cast<std::size_t>(name)](),
                                              CL_KERNEL_EXEC_INFO_SVM_PTRS,
                                              pointers.size() * sizeof(void*), pointers.data());
    if (status != CL_SUCCESS) fail(status, "declare shared memory", name);
  }
}

void KernelCalls::embed(const ScratchBuffer& rows, const actors::EmbeddingDescription& embedding,
                        std::uint32_t columns, std::uint32_t tokens, const ScratchBuffer& out) {
  call(Name::kEmbed, {tokens, 1, 1}, rows, embedding.row_bytes,
       static_cast<std::uint32_t>(embedding.type), columns, tokens, embedding.scale, out);
}

void KernelCalls::rms_norm(const ScratchBuffer& in, const ScratchBuffer& out,
                           const DeviceTensor& weight, std::uint32_t rows, float epsilon,
                           const ScratchBuffer* row_map, bool add) {
  call(Name::kRmsNorm, {rows, 1, 1}, in, out, weight.unit,
       weight.unit.offset + weight.view.unit_offset, weight.view.columns, rows, epsilon,
       row_map != nullptr ? *row_map : in, std::uint32_t{row_map != nullptr}, std::uint32_t{add});
}

void KernelCalls::matmul(const DeviceTensor& weight, const ScratchBuffer& x, const ScratchBuffer& y,
                         std::uint32_t tokens, bool add) {
  const std::uint64_t offset = weight.unit.offset + weight.view.unit_offset;
  const std::uint64_t bias = weight.unit.offset + weight.bias_offset;
  const std::uint32_t rows = weight.view.rows;
  if (tokens == 1) {
    const std::uint32_t each = rows_per_item(rows, 4, 32);
    call(Name::kMatmulRow, {divide_up(rows, each), 1, 1}, weight.unit, offset, bias,
         weight.view.row_bytes, type_of(weight), weight.view.columns, rows, x, y, each,
         flags_of(weight, add));
  } else {
    const std::uint32_t each = rows_per_item(rows, 2, 16);
    call(Name::kMatmulFew, {divide_up(rows, each), 1, 1}, weight.unit, offset, bias,
         weight.view.row_bytes, type_of(weight), weight.view.columns, rows, tokens, x, y, each,
         flags_of(weight, add));
  }
}

void KernelCalls::pack(const ScratchBuffer& x, const ScratchBuffer& packed, std::uint32_t columns,
                       std::uint32_t tokens) {
  call(Name::kPack, {divide_up(tokens, kPackTokens), divide_up(columns, kPackColumns), 1}, x,
       packed, columns, tokens);
}

void KernelCalls::matmul_packed(const DeviceTensor& weight, const ScratchBuffer& packed,
                                const ScratchBuffer& y, std::uint32_t tokens, bool add) {
  call(Name::kMatmulMany,
       {divide_up(weight.view.rows, kManyRows), divide_up(tokens, kManyTokens), 1}, weight.unit,
       weight.unit.offset + weight.view.unit_offset, weight.unit.offset + weight.bias_offset,
       weight.view.row_bytes, type_of(weight), weight.view.columns, weight.view.rows, tokens,
       packed, y, flags_of(weight, add));
}

void KernelCalls::rope_store(const ScratchBuffer& q, const ScratchBuffer& k, const ScratchBuffer& v,
                             const ScratchBuffer& angles, const DeviceChunks& chunks,
                             const AttentionShape& shape, std::uint32_t rotated,
                             bool split_halves) {
  call(Name::kRopeStore, {shape.tokens, shape.heads + 2 * shape.kv_heads, 1}, q, k, v, angles,
       chunks.base, *chunks.table, chunks.table_first, shape.heads, shape.kv_heads, shape.head_dim,
       shape.first_position, shape.tokens, rotated, std::uint32_t{split_halves});
}

void KernelCalls::attention(const ScratchBuffer& q, const ScratchBuffer& out,
                            const ScratchBuffer& partial, const ScratchBuffer& partial_weights,
                            const DeviceChunks& chunks, const AttentionShape& shape) {
  const std::uint64_t rows = std::uint64_t{shape.tokens} * (shape.heads / shape.kv_heads);
  call(Name::kAttention, {divide_up(rows, kAttentionRows), shape.kv_heads, shape.ranges}, q,
       shape.ranges == 1 ? out : partial, partial_weights, chunks.base, *chunks.table,
       chunks.table_first, shape.heads, shape.kv_heads, shape.head_dim, shape.first_position,
       shape.tokens, shape.window, shape.scale, shape.softcap, shape.first_chunk, shape.ranges,
       shape.range_chunks);
  if (shape.ranges == 1) return;
  const std::uint32_t token_heads = shape.tokens * shape.heads;
  call(Name::kAttentionMerge, {token_heads, 1, 1}, partial, partial_weights, out, token_heads,
       shape.head_dim, shape.ranges);
}

void KernelCalls::gate(const ScratchBuffer& gate, const ScratchBuffer& up, std::uint32_t values,
                       GateKind kind) {
  call(Name::kGate, {divide_up(values, kElementwiseValues), 1, 1}, gate, up, values,
       static_cast<std::uint32_t>(kind));
}

void KernelCalls::softcap(const ScratchBuffer& x, std::uint32_t values, float cap) {
  call(Name::kSoftcap, {divide_up(values, kElementwiseValues), 1, 1}, x, values, cap);
}

void KernelCalls::read(const ScratchBuffer& from, void* to, std::uint64_t bytes) {
  if (status_ != CL_SUCCESS) return;
  cl_event event = nullptr;
  const cl_int status = clEnqueueReadBuffer(device_.queue()(), from.memory(), CL_FALSE, 0, bytes,
                                            to, 0, nullptr, events_wanted_ ? &event : nullptr);
  if (status != CL_SUCCESS) return fail(status, "read logits", Name::kCount);
  if (event != nullptr) keep_event(event);
}

}  // namespace mzcache::gpu
