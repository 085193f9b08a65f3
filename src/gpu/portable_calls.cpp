#include <algorithm>
#include <array>
#include <utility>

#include "gpu/kernel_calls.h"

namespace mzcache::gpu {
namespace {

// In the order of Name.
constexpr std::array<const char*, 12> kNames = {
    "mz_embed",       "mz_rms_norm",    "mz_matmul_row", "mz_matmul_few",      "mz_pack",
    "mz_matmul_many", "mz_rope_store",  "mz_attention",  "mz_attention_merge", "mz_gate",
    "mz_softcap",     "mz_query_energy"};

// Constants of the kernels: how much one work-item does.
constexpr std::uint32_t kPackTokens = 32;
constexpr std::uint32_t kPackColumns = 64;
constexpr std::uint32_t kManyRows = 32;
constexpr std::uint32_t kManyTokens = 128;
constexpr std::uint32_t kAttentionRows = 8;
constexpr std::uint32_t kElementwiseValues = 1024;
constexpr std::uint32_t kEnergyChannels = 64;
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

enum class Name : std::uint8_t {
  kEmbed,
  kRmsNorm,
  kMatmulRow,
  kMatmulFew,
  kPack,
  kMatmulMany,
  kRopeStore,
  kAttention,
  kAttentionMerge,
  kGate,
  kSoftcap,
  kQueryEnergy,
  kCount,
};
static_assert(kNames.size() == static_cast<std::size_t>(Name::kCount));

// One launch per operation, for any device.
class PortableCalls final : public KernelCalls {
 public:
  explicit PortableCalls(const Device& device) : KernelCalls(device) {}
  [[nodiscard]] Result<void> prepare(const cl::Program& program, const StopFlag& stop);

  void declare_pointers(const std::vector<const void*>& pointers) override;
  void embed(const ScratchBuffer& rows, const actors::EmbeddingDescription& embedding,
             std::uint32_t columns, std::uint32_t tokens, const ScratchBuffer& out) override;
  void rms_norm(const ScratchBuffer& in, const ScratchBuffer& out, const DeviceTensor& weight,
                std::uint32_t rows, float epsilon, const ScratchBuffer* row_map, bool add) override;
  void matmul(const DeviceTensor& weight, const ScratchBuffer& x, const ScratchBuffer& packed,
              const ScratchBuffer& y, std::uint32_t tokens, bool add) override;
  [[nodiscard]] std::uint64_t packed_bytes(std::uint32_t columns,
                                           std::uint32_t tokens) const override {
    if (tokens < kPackedTokensMin) return 0;
    return actors::align_up(std::uint64_t{tokens}, kPackTokens) * columns * sizeof(float);
  }
  void rope_store(const ScratchBuffer& q, const ScratchBuffer& k, const ScratchBuffer& v,
                  const ScratchBuffer& angles, const DeviceChunks& chunks,
                  const AttentionShape& shape, std::uint32_t rotated, bool split_halves) override;
  void attention(const ScratchBuffer& q, const ScratchBuffer& out, const ScratchBuffer& partial,
                 const ScratchBuffer& partial_weights, const DeviceChunks& chunks,
                 const AttentionShape& shape) override;
  void gate(const ScratchBuffer& gate, const ScratchBuffer& up, std::uint32_t values,
            GateKind kind) override;
  void softcap(const ScratchBuffer& x, std::uint32_t values, float cap) override;
  void query_energy(const ScratchBuffer& q, const ScratchBuffer& sums, std::uint64_t sums_first,
                    std::uint32_t width, std::uint32_t tokens, std::uint32_t every) override;

 private:
  using Grid = std::array<std::size_t, 3>;

  // Sets arguments 1 … and launches; argument 0 is the stop flag, set once.
  template <class... Arguments>
  void call(Name name, const Grid& grid, const Arguments&... arguments);
  void set(cl_kernel kernel, cl_uint index, std::uint32_t value);
  void set(cl_kernel kernel, cl_uint index, std::uint64_t value);
  void set(cl_kernel kernel, cl_uint index, float value);
  void set(cl_kernel kernel, cl_uint index, const ScratchBuffer& buffer);
  void set(cl_kernel kernel, cl_uint index, const KernelAddress& address);
  void note(cl_int status) noexcept {
    if (argument_status_ == CL_SUCCESS) argument_status_ = status;
  }

  std::array<cl::Kernel, static_cast<std::size_t>(Name::kCount)> kernels_;
  cl_int argument_status_ = CL_SUCCESS;
};

Result<void> PortableCalls::prepare(const cl::Program& program, const StopFlag& stop) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    cl_int status = CL_SUCCESS;
    kernels_[i] = cl::Kernel(program, kNames[i], &status);
    if (status == CL_SUCCESS) status = stop.set_argument(kernels_[i](), 0);
    if (status != CL_SUCCESS) return Error{ErrorCode::kDevice, status, "create kernel", kNames[i]};
  }
  return {};
}

void PortableCalls::set(cl_kernel kernel, cl_uint index, std::uint32_t value) {
  note(clSetKernelArg(kernel, index, sizeof value, &value));
}
void PortableCalls::set(cl_kernel kernel, cl_uint index, std::uint64_t value) {
  note(clSetKernelArg(kernel, index, sizeof value, &value));
}
void PortableCalls::set(cl_kernel kernel, cl_uint index, float value) {
  note(clSetKernelArg(kernel, index, sizeof value, &value));
}
void PortableCalls::set(cl_kernel kernel, cl_uint index, const ScratchBuffer& buffer) {
  cl_mem memory = buffer.memory();
  note(clSetKernelArg(kernel, index, sizeof(cl_mem), &memory));
}
void PortableCalls::set(cl_kernel kernel, cl_uint index, const KernelAddress& address) {
  if (device().info().mode == MemoryMode::kBuffers) {
    cl_mem memory = address.buffer;
    note(clSetKernelArg(kernel, index, sizeof(cl_mem), &memory));
  } else {
    note(clSetKernelArgSVMPointer(kernel, index, address.pointer));
  }
}

template <class... Arguments>
void PortableCalls::call(Name name, const Grid& grid, const Arguments&... arguments) {
  if (failed()) return;
  cl_kernel kernel = kernels_[static_cast<std::size_t>(name)]();
  const char* text = kNames[static_cast<std::size_t>(name)];
  cl_uint index = 0;
  (set(kernel, ++index, arguments), ...);
  if (const cl_int status = std::exchange(argument_status_, CL_SUCCESS); status != CL_SUCCESS) {
    return fail(status, "set kernel arguments", text);
  }
  enqueue(kernel, grid, text);
}

void PortableCalls::declare_pointers(const std::vector<const void*>& pointers) {
  if (pointers.empty()) return;
  for (const Name name : {Name::kRopeStore, Name::kAttention}) {
    const cl_int status = clSetKernelExecInfo(kernels_[static_cast<std::size_t>(name)](),
                                              CL_KERNEL_EXEC_INFO_SVM_PTRS,
                                              pointers.size() * sizeof(void*), pointers.data());
    if (status != CL_SUCCESS)
      fail(status, "declare shared memory", kNames[static_cast<std::size_t>(name)]);
  }
}

void PortableCalls::embed(const ScratchBuffer& rows, const actors::EmbeddingDescription& embedding,
                          std::uint32_t columns, std::uint32_t tokens, const ScratchBuffer& out) {
  call(Name::kEmbed, {tokens, 1, 1}, rows, embedding.row_bytes,
       static_cast<std::uint32_t>(embedding.type), columns, tokens, embedding.scale, out);
  written(out);
}

void PortableCalls::rms_norm(const ScratchBuffer& in, const ScratchBuffer& out,
                             const DeviceTensor& weight, std::uint32_t rows, float epsilon,
                             const ScratchBuffer* row_map, bool add) {
  call(Name::kRmsNorm, {rows, 1, 1}, in, out, weight.unit,
       weight.unit.offset + weight.view.unit_offset, weight.view.columns, rows, epsilon,
       row_map != nullptr ? *row_map : in, std::uint32_t{row_map != nullptr}, std::uint32_t{add});
  written(out);
}

void PortableCalls::matmul(const DeviceTensor& weight, const ScratchBuffer& x,
                           const ScratchBuffer& packed, const ScratchBuffer& y,
                           std::uint32_t tokens, bool add) {
  const std::uint64_t offset = weight.unit.offset + weight.view.unit_offset;
  const std::uint64_t bias = weight.unit.offset + weight.bias_offset;
  const std::uint32_t rows = weight.view.rows;
  const std::uint32_t columns = weight.view.columns;
  if (tokens == 1) {
    const std::uint32_t each = rows_per_item(rows, 4, 32);
    call(Name::kMatmulRow, {divide_up(rows, each), 1, 1}, weight.unit, offset, bias,
         weight.view.row_bytes, type_of(weight), columns, rows, x, y, each, flags_of(weight, add));
  } else if (tokens < kPackedTokensMin) {
    const std::uint32_t each = rows_per_item(rows, 2, 16);
    call(Name::kMatmulFew, {divide_up(rows, each), 1, 1}, weight.unit, offset, bias,
         weight.view.row_bytes, type_of(weight), columns, rows, tokens, x, y, each,
         flags_of(weight, add));
  } else {
    if (!packed_before(x, 0)) {
      call(Name::kPack, {divide_up(tokens, kPackTokens), divide_up(columns, kPackColumns), 1}, x,
           packed, columns, tokens);
    }
    call(Name::kMatmulMany, {divide_up(rows, kManyRows), divide_up(tokens, kManyTokens), 1},
         weight.unit, offset, bias, weight.view.row_bytes, type_of(weight), columns, rows, tokens,
         packed, y, flags_of(weight, add));
  }
  written(y);
}

void PortableCalls::rope_store(const ScratchBuffer& q, const ScratchBuffer& k,
                               const ScratchBuffer& v, const ScratchBuffer& angles,
                               const DeviceChunks& chunks, const AttentionShape& shape,
                               std::uint32_t rotated, bool split_halves) {
  call(Name::kRopeStore, {shape.tokens, shape.heads + 2 * shape.kv_heads, 1}, q, k, v, angles,
       chunks.base, *chunks.table, chunks.table_first, shape.heads, shape.kv_heads, shape.head_dim,
       shape.first_position, shape.tokens, rotated, std::uint32_t{split_halves});
  written(q);
}

void PortableCalls::attention(const ScratchBuffer& q, const ScratchBuffer& out,
                              const ScratchBuffer& partial, const ScratchBuffer& partial_weights,
                              const DeviceChunks& chunks, const AttentionShape& shape) {
  const std::uint64_t rows = std::uint64_t{shape.tokens} * (shape.heads / shape.kv_heads);
  written(out);
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

void PortableCalls::gate(const ScratchBuffer& gate, const ScratchBuffer& up, std::uint32_t values,
                         GateKind kind) {
  call(Name::kGate, {divide_up(values, kElementwiseValues), 1, 1}, gate, up, values,
       static_cast<std::uint32_t>(kind));
  written(gate);
}

void PortableCalls::softcap(const ScratchBuffer& x, std::uint32_t values, float cap) {
  call(Name::kSoftcap, {divide_up(values, kElementwiseValues), 1, 1}, x, values, cap);
}

void PortableCalls::query_energy(const ScratchBuffer& q, const ScratchBuffer& sums,
                                 std::uint64_t sums_first, std::uint32_t width,
                                 std::uint32_t tokens, std::uint32_t every) {
  call(Name::kQueryEnergy, {divide_up(width, kEnergyChannels), 1, 1}, q, sums, sums_first, width,
       tokens, every);
}

}  // namespace

Result<std::unique_ptr<KernelCalls>> create_portable_calls(const Device& device,
                                                           const Kernels& kernels,
                                                           const StopFlag& stop) {
  auto calls = std::make_unique<PortableCalls>(device);
  if (auto ok = calls->prepare(kernels.program, stop); !ok) return ok.error();
  return std::unique_ptr<KernelCalls>(std::move(calls));
}

}  // namespace mzcache::gpu
