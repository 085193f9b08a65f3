// The kernel set for processors: operations go into a list that one kernel runs, one by one or, on
// an undisturbed machine, all of a slice in one launch.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "gpu/cpu_operations.h"
#include "gpu/kernel_calls.h"

namespace mzcache::gpu {
namespace {

constexpr const char* kKernel = "mz_run";

// What one item of an operation does; as in the kernels.
constexpr std::uint32_t kAttentionRows = 8;
constexpr std::uint32_t kNarrowAttentionRows = 24;  // narrow: registers of 8 floats
// More than kAttentionRows share what is decoded of encoded chunks; their sums are the same bits.
constexpr std::uint32_t kEncodedAttentionRows = 24;
constexpr std::uint32_t kElementwiseValues = 1024;
constexpr std::uint32_t kEnergyChannels = 64;
constexpr std::uint32_t kPackTokens = 32;
constexpr std::uint32_t kPackColumns = 64;
constexpr std::uint32_t kManyRows = 32;
constexpr std::uint32_t kNarrowManyRows = 24;
constexpr std::uint32_t kManyTokens = 128;
constexpr std::uint32_t kLanesRows = 16;
constexpr std::uint32_t kLanesTokens = 512;
constexpr std::uint32_t kFewTokens = 8;
constexpr std::uint64_t kPairsBlockBytes = 448;
constexpr std::uint32_t kLine = 64;  // bytes of a cache line
// Words from the barriers' counter to that of long waits; as in the kernel. Slices until launches
// are gathered again after one.
constexpr std::uint32_t kWaitedWords = 16;
constexpr std::uint32_t kPlainSlices = 64;
constexpr std::uint32_t kAdd = 1;
constexpr std::uint32_t kBias = 2;

std::uint32_t divide_up(std::uint64_t value, std::uint64_t by) {
  return static_cast<std::uint32_t>((value + by - 1) / by);
}

// Queues of this process with the CPU set. Two launches that spin on their barriers at once could
// each wait for a core that the other one holds.
std::atomic<int>& live_queues() {
  static std::atomic<int> count{0};
  return count;
}

std::uint32_t cpus_allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::uint32_t>(CPU_COUNT(&set));
}

class CpuCalls final : public KernelCalls {
 public:
  CpuCalls(const Device& device, const Kernels& kernels)
      : KernelCalls(device),
        byte_types_(kernels.needs.byte_types(device.info())),
        row_byte_types_(kernels.needs.row_byte_types(device.info())),
        width_(device.info().float_width >= 16 ? 16 : 8),
        groups_(std::max(1U, device.info().compute_units)) {
    live_queues().fetch_add(1);
  }
  ~CpuCalls() override { live_queues().fetch_sub(1); }
  CpuCalls(const CpuCalls&) = delete;
  CpuCalls& operator=(const CpuCalls&) = delete;

  [[nodiscard]] Result<void> prepare(const cl::Program& program, const StopFlag& stop,
                                     std::uint32_t operations);

  void begin_slice(bool undisturbed) override;
  [[nodiscard]] bool gathering() const noexcept override { return gathering_; }
  void launch() override;
  void embed(const ScratchBuffer& rows, const actors::EmbeddingDescription& embedding,
             std::uint32_t columns, std::uint32_t tokens, const ScratchBuffer& out) override;
  void rms_norm(const ScratchBuffer& in, const ScratchBuffer& out, const DeviceTensor& weight,
                std::uint32_t rows, float epsilon, const ScratchBuffer* row_map, bool add) override;
  void matmul(const DeviceTensor& weight, const ScratchBuffer& x, const ScratchBuffer& packed,
              const ScratchBuffer& y, std::uint32_t tokens, bool add) override;
  [[nodiscard]] std::uint64_t packed_bytes(std::uint32_t columns,
                                           std::uint32_t tokens) const override;
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
  // How a product of this size is done.
  struct Plan {
    CpuKind kind = CpuKind::kRow;
    CpuPack pack = CpuPack::kFloats;
    bool packs = false;
    std::uint32_t planes = 1;
    std::uint32_t step = 4;  // rows at a time
    std::uint32_t items = 0;
    std::uint32_t rows_per_item = 0;
  };
  [[nodiscard]] Plan plan(const actors::TensorView& view, std::uint32_t tokens) const;
  [[nodiscard]] bool narrow() const noexcept { return width_ == 8; }
  [[nodiscard]] bool of_bytes(actors::TensorType type, std::uint32_t tokens) const noexcept {
    return ((tokens == 1 ? row_byte_types_ : byte_types_) & type_bit(type)) != 0;
  }
  void pack(const Plan& how, const ScratchBuffer& x, const ScratchBuffer& packed,
            std::uint32_t columns, std::uint32_t tokens);
  // The next operation; run at once unless operations are gathered.
  CpuOperation& append(CpuKind kind, std::uint32_t items);
  void done();
  void run(std::uint32_t first, std::uint32_t last, std::uint32_t groups);

  [[nodiscard]] std::size_t barrier_word() const noexcept {
    return std::size_t{groups_} * capacity_;
  }
  static std::uint64_t address(const ScratchBuffer& buffer) {
    return reinterpret_cast<std::uint64_t>(buffer.host());
  }
  static std::uint64_t address(const DeviceTensor& tensor) {
    return reinterpret_cast<std::uint64_t>(tensor.unit.pointer) + tensor.unit.offset;
  }

  const TypeSet byte_types_;
  const TypeSet row_byte_types_;
  const std::uint32_t width_;
  const std::uint32_t groups_;
  cl::Kernel kernel_;
  ScratchBuffer list_;   // CpuOperation[capacity_]
  ScratchBuffer taken_;  // uint[groups_][capacity_], then one for the barriers in a line of its own
  std::uint32_t capacity_ = 0;
  std::uint32_t count_ = 0;     // operations in the list
  std::uint32_t launched_ = 0;  // of them
  std::uint32_t arrived_ = 0;   // at barriers, by all groups
  bool gathering_ = false;
  std::uint32_t waited_ = 0;      // long waits at barriers that were known of
  std::uint32_t plain_left_ = 0;  // slices to run one operation at a time
};

Result<void> CpuCalls::prepare(const cl::Program& program, const StopFlag& stop,
                               std::uint32_t operations) {
  cl_int status = CL_SUCCESS;
  kernel_ = cl::Kernel(program, kKernel, &status);
  if (status == CL_SUCCESS) status = stop.set_argument(kernel_(), 0);
  if (status != CL_SUCCESS) return Error{ErrorCode::kDevice, status, "create kernel", kKernel};
  capacity_ = static_cast<std::uint32_t>(actors::align_up(operations, kLine));
  if (auto ok = list_.resize(device(), capacity_ * sizeof(CpuOperation)); !ok) return ok;
  if (auto ok = taken_.resize(device(), (barrier_word() + kLine) * sizeof(std::uint32_t)); !ok) {
    return ok;
  }
  std::memset(taken_.host(), 0, taken_.bytes());
  const auto* barrier = taken_.host() + barrier_word() * sizeof(std::uint32_t);
  status = clSetKernelArgSVMPointer(kernel_(), 1, list_.host());
  if (status == CL_SUCCESS) status = clSetKernelArgSVMPointer(kernel_(), 2, taken_.host());
  if (status == CL_SUCCESS) status = clSetKernelArgSVMPointer(kernel_(), 3, barrier);
  if (status != CL_SUCCESS) {
    return Error{ErrorCode::kDevice, status, "set kernel arguments", kKernel};
  }
  return {};
}

void CpuCalls::begin_slice(bool undisturbed) {
  KernelCalls::begin_slice(undisturbed);
  count_ = launched_ = 0;
  // Where a group waited long, its neighbour had lost its core to somebody else: a whole time slice
  // at each barrier. Launches of one operation share the work with whoever comes.
  const std::uint32_t waited =
      reinterpret_cast<const std::uint32_t*>(taken_.host())[barrier_word() + kWaitedWords];
  if (std::exchange(waited_, waited) != waited) plain_left_ = kPlainSlices;
  // What the groups counted, not what was launched: a launch may have failed.
  arrived_ = reinterpret_cast<const std::uint32_t*>(taken_.host())[barrier_word()];
  gathering_ =
      undisturbed && plain_left_ == 0 && live_queues().load() == 1 && cpus_allowed() >= groups_;
  if (undisturbed && plain_left_ > 0) --plain_left_;
}

CpuOperation& CpuCalls::append(CpuKind kind, std::uint32_t items) {
  if (count_ == capacity_) {
    launch();
    if (const cl_int status = device().queue().finish(); status != CL_SUCCESS) {
      fail(status, "finish", kKernel);
    }
    count_ = launched_ = 0;
  }
  for (std::size_t group = 0; group < groups_; ++group) {
    reinterpret_cast<std::uint32_t*>(taken_.host())[group * capacity_ + count_] = 0;
  }
  auto& operation = reinterpret_cast<CpuOperation*>(list_.host())[count_++];
  operation = CpuOperation{};
  operation.kind = kind;
  operation.items = items;
  return operation;
}

void CpuCalls::done() {
  if (gathering_) return;
  const std::uint32_t items = reinterpret_cast<CpuOperation*>(list_.host())[count_ - 1].items;
  run(count_ - 1, count_, std::min(groups_, std::max(items, 1U)));
  launched_ = count_;
}

void CpuCalls::launch() {
  if (launched_ == count_) return;
  run(launched_, count_, groups_);
  arrived_ += (count_ - launched_ - 1) * groups_;
  launched_ = count_;
}

void CpuCalls::run(std::uint32_t first, std::uint32_t last, std::uint32_t groups) {
  if (failed()) return;
  cl_uint index = 4;
  cl_int status = CL_SUCCESS;
  for (const std::uint32_t value : {arrived_, first, last, groups, capacity_}) {
    const cl_int set = clSetKernelArg(kernel_(), index++, sizeof value, &value);
    if (status == CL_SUCCESS) status = set;
  }
  if (status != CL_SUCCESS) return fail(status, "set kernel arguments", kKernel);
  enqueue(kernel_(), {groups, 1, 1}, kKernel);
}

void CpuCalls::embed(const ScratchBuffer& rows, const actors::EmbeddingDescription& embedding,
                     std::uint32_t columns, std::uint32_t tokens, const ScratchBuffer& out) {
  CpuOperation& o = append(CpuKind::kEmbed, tokens);
  o.p = {address(rows), address(out), embedding.row_bytes};
  o.u = {static_cast<std::uint32_t>(embedding.type), columns, tokens};
  o.f = {embedding.scale};
  written(out);
  done();
}

void CpuCalls::rms_norm(const ScratchBuffer& in, const ScratchBuffer& out,
                        const DeviceTensor& weight, std::uint32_t rows, float epsilon,
                        const ScratchBuffer* row_map, bool add) {
  CpuOperation& o = append(CpuKind::kNorm, rows);
  o.p = {address(in), address(out), address(weight) + weight.view.unit_offset,
         row_map != nullptr ? address(*row_map) : 0};
  o.u = {weight.view.columns, rows, row_map != nullptr ? 1U : 0U, add ? 1U : 0U};
  o.f = {epsilon};
  written(out);
  done();
}

CpuCalls::Plan CpuCalls::plan(const actors::TensorView& view, std::uint32_t tokens) const {
  const bool bytes = of_bytes(view.type, tokens);
  const bool half = narrow() || view.type == actors::TensorType::kF16;
  Plan plan;
  std::uint32_t most = 32;  // rows per item
  if (tokens == 1) {
    plan.kind = bytes ? CpuKind::kBytesRow : CpuKind::kRow;
    plan.pack = CpuPack::kRow;
    plan.packs = bytes;
  } else if (bytes ? tokens <= kFewTokens : tokens < kPackedTokensMin) {
    plan.kind = bytes ? CpuKind::kBytesFew : half ? CpuKind::kHalfFew : CpuKind::kFew;
    plan.pack = !bytes ? CpuPack::kFew : width_ == 16 ? CpuPack::kPairs : CpuPack::kLanes;
    plan.packs = bytes || half;
    plan.step = !bytes && half ? 3 : 4;
    most = !bytes && half ? 24 : 16;
  } else {
    plan.kind = bytes ? CpuKind::kBytesMany : CpuKind::kMany;
    plan.pack = bytes ? CpuPack::kLanes : CpuPack::kFloats;
    plan.packs = true;
    plan.items = bytes ? divide_up(view.rows, kLanesRows)
                       : divide_up(view.rows, narrow() ? kNarrowManyRows : kManyRows) *
                             divide_up(tokens, kManyTokens);
    return plan;
  }
  // About 32 items where the matrix is small, so that the cores share it evenly.
  plan.rows_per_item = std::clamp(view.rows / 32 / plan.step * plan.step, plan.step, most);
  plan.items = divide_up(view.rows, plan.rows_per_item);
  return plan;
}

std::uint64_t CpuCalls::packed_bytes(std::uint32_t columns, std::uint32_t tokens) const {
  const std::uint64_t blocks = columns / 32;
  const std::uint64_t floats = actors::align_up(std::uint64_t{tokens}, kPackTokens) * columns * 4;
  const std::uint64_t lanes = divide_up(tokens, width_) * blocks * width_ * 44;
  if (tokens == 1) return 2 * actors::align_up(columns + blocks * 12, kLine);
  return std::max({floats, 2 * lanes, 2 * kPairsBlockBytes * blocks});
}

void CpuCalls::pack(const Plan& how, const ScratchBuffer& x, const ScratchBuffer& packed,
                    std::uint32_t columns, std::uint32_t tokens) {
  const CpuPack form = how.pack;
  if (packed_before(x, static_cast<std::uint32_t>(form) * 4 + how.planes)) return;
  if (form == CpuPack::kFloats) {
    const std::uint32_t column_blocks = divide_up(columns, kPackColumns);
    CpuOperation& o = append(CpuKind::kPackFloats, divide_up(tokens, kPackTokens) * column_blocks);
    o.p = {address(x), address(packed)};
    o.u = {0, columns, tokens, column_blocks};
  } else {
    const std::uint32_t whole = form == CpuPack::kRow     ? 1
                                : form == CpuPack::kLanes ? width_
                                                          : kFewTokens;
    CpuOperation& o = append(
        CpuKind::kPack, static_cast<std::uint32_t>(actors::align_up(std::uint64_t{tokens}, whole)));
    o.p = {address(x), address(packed)};
    o.u = {static_cast<std::uint32_t>(form), columns, tokens, how.planes};
  }
  done();
}

void CpuCalls::matmul(const DeviceTensor& weight, const ScratchBuffer& x,
                      const ScratchBuffer& packed, const ScratchBuffer& y, std::uint32_t tokens,
                      bool add) {
  const actors::TensorView& view = weight.view;
  if (tokens > kLanesTokens) return fail(CL_INVALID_VALUE, "multiply", "more than 512 tokens");
  Plan how = plan(view, tokens);
  if (of_bytes(view.type, tokens) && !weight.coarse) how.planes = 2;
  if (how.packs) pack(how, x, packed, view.columns, tokens);
  CpuOperation& o = append(how.kind, how.items);
  o.p = {address(weight),    address(how.packs ? packed : x),
         address(y),         view.unit_offset,
         weight.bias_offset, view.row_bytes};
  o.u = {static_cast<std::uint32_t>(view.type),
         view.columns,
         view.rows,
         tokens,
         (add ? kAdd : 0) | (weight.has_bias ? kBias : 0),
         how.rows_per_item,
         divide_up(tokens, kManyTokens),
         how.planes};
  written(y);
  done();
}

void CpuCalls::rope_store(const ScratchBuffer& q, const ScratchBuffer& k, const ScratchBuffer& v,
                          const ScratchBuffer& angles, const DeviceChunks& chunks,
                          const AttentionShape& shape, std::uint32_t rotated, bool split_halves) {
  const std::uint32_t slots = shape.heads + 2 * shape.kv_heads;
  CpuOperation& o = append(CpuKind::kRopeStore, shape.tokens * slots);
  o.p = {address(q), address(k), address(v), address(angles),
         address(*chunks.table) + chunks.table_first * sizeof(std::uint64_t)};
  o.u = {shape.heads,  shape.kv_heads, shape.head_dim,         shape.first_position,
         shape.tokens, rotated,        split_halves ? 1U : 0U, slots};
  written(q);
  done();
}

void CpuCalls::attention(const ScratchBuffer& q, const ScratchBuffer& out,
                         const ScratchBuffer& partial, const ScratchBuffer& partial_weights,
                         const DeviceChunks& chunks, const AttentionShape& shape) {
  const std::uint64_t rows = std::uint64_t{shape.tokens} * (shape.heads / shape.kv_heads);
  std::uint32_t each = kAttentionRows;
  // Alike, in fours or eights.
  const auto alike = [rows](std::uint32_t most, std::uint32_t step) {
    return std::min(most, divide_up(divide_up(rows, divide_up(rows, most)), step) * step);
  };
  if (narrow()) {
    each = alike(kNarrowAttentionRows, 4);
  } else if (chunks.encoded) {
    each = alike(kEncodedAttentionRows, kAttentionRows);
  }
  const std::uint32_t blocks = divide_up(rows, each);
  CpuOperation& o = append(CpuKind::kAttention, blocks * shape.kv_heads * shape.ranges);
  o.p = {address(q), address(shape.ranges == 1 ? out : partial), address(partial_weights),
         address(*chunks.table) + chunks.table_first * sizeof(std::uint64_t)};
  o.u = {shape.heads,  shape.kv_heads,    shape.head_dim, shape.first_position, shape.tokens,
         shape.window, shape.first_chunk, shape.ranges,   shape.range_chunks,   blocks,
         each};
  o.f = {shape.scale, shape.softcap};
  written(out);
  done();
  if (shape.ranges == 1) return;
  const std::uint32_t token_heads = shape.tokens * shape.heads;
  CpuOperation& merge = append(CpuKind::kMerge, token_heads);
  merge.p = {address(partial), address(partial_weights), address(out)};
  merge.u = {token_heads, shape.head_dim, shape.ranges};
  done();
}

void CpuCalls::gate(const ScratchBuffer& gate, const ScratchBuffer& up, std::uint32_t values,
                    GateKind kind) {
  CpuOperation& o = append(CpuKind::kGate, divide_up(values, kElementwiseValues));
  o.p = {address(gate), address(up)};
  o.u = {values, static_cast<std::uint32_t>(kind)};
  written(gate);
  done();
}

void CpuCalls::softcap(const ScratchBuffer& x, std::uint32_t values, float cap) {
  CpuOperation& o = append(CpuKind::kSoftcap, divide_up(values, kElementwiseValues));
  o.p = {address(x)};
  o.u = {values};
  o.f = {cap};
  written(x);
  done();
}

void CpuCalls::query_energy(const ScratchBuffer& q, const ScratchBuffer& sums,
                            std::uint64_t sums_first, std::uint32_t width, std::uint32_t tokens,
                            std::uint32_t every) {
  CpuOperation& o = append(CpuKind::kQueryEnergy, divide_up(width, kEnergyChannels));
  o.p = {address(q), address(sums) + sums_first * sizeof(float)};
  o.u = {width, tokens, every};
  done();
}

}  // namespace

Result<std::unique_ptr<KernelCalls>> create_cpu_calls(const Device& device, const Kernels& kernels,
                                                      const StopFlag& stop,
                                                      std::uint32_t operations) {
  auto calls = std::make_unique<CpuCalls>(device, kernels);
  if (auto ok = calls->prepare(kernels.program, stop, operations); !ok) return ok.error();
  return std::unique_ptr<KernelCalls>(std::move(calls));
}

}  // namespace mzcache::gpu
