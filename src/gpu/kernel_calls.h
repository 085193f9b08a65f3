// Kernels with their arguments: one function per kernel of kernels/*.cl, so that the order and the
// types of arguments stand in one place beside each other.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/layer_recipe.h"
#include "gpu/scratch.h"
#include "gpu/stop_flag.h"
#include "gpu/unit_memory.h"

namespace mzcache::gpu {

// A tensor where kernels find it.
struct DeviceTensor {
  KernelAddress unit;
  actors::TensorView view;
  // A bias in the same unit, from the unit's start.
  bool has_bias = false;
  std::uint64_t bias_offset = 0;
};

// The chunks of one layer of one context.
struct DeviceChunks {
  KernelAddress base;  // kBuffers: the layer's KV buffer; else unused
  const ScratchBuffer* table = nullptr;
  std::uint64_t table_first = 0;
};

struct AttentionShape {
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t first_position = 0;
  std::uint32_t tokens = 0;
  std::uint32_t window = 0;
  float scale = 1;
  float softcap = 0;
  std::uint32_t first_chunk = 0;
  std::uint32_t ranges = 1;
  std::uint32_t range_chunks = 1;
};

// Enqueues on the device's queue. The first failure sticks and makes later calls do nothing, so a
// sequence is checked once, by take_status(). One owner thread.
class KernelCalls {
 public:
  [[nodiscard]] static Result<std::unique_ptr<KernelCalls>> create(const Device& device,
                                                                   const cl::Program& program,
                                                                   const StopFlag& stop);

  // From here on the events of the first and of the last launch are kept.
  void begin_events(bool wanted);
  [[nodiscard]] const cl::Event& first_event() const noexcept { return first_; }
  [[nodiscard]] const cl::Event& last_event() const noexcept { return last_; }
  // A marker behind what was enqueued, for sequences that may hold no launch at all.
  void marker();
  [[nodiscard]] Result<void> take_status();
  // Declares memory reached through chunk tables (SVM).
  void declare_pointers(const std::vector<const void*>& pointers);

  void embed(const ScratchBuffer& rows, const actors::EmbeddingDescription& embedding,
             std::uint32_t columns, std::uint32_t tokens, const ScratchBuffer& out);
  // row_map may be null; then rows map to themselves.
  void rms_norm(const ScratchBuffer& in, const ScratchBuffer& out, const DeviceTensor& weight,
                std::uint32_t rows, float epsilon, const ScratchBuffer* row_map, bool add);
  // Few tokens (below kPackedTokensMin); x is [tokens][columns].
  void matmul(const DeviceTensor& weight, const ScratchBuffer& x, const ScratchBuffer& y,
              std::uint32_t tokens, bool add);
  void pack(const ScratchBuffer& x, const ScratchBuffer& packed, std::uint32_t columns,
            std::uint32_t tokens);
  void matmul_packed(const DeviceTensor& weight, const ScratchBuffer& packed,
                     const ScratchBuffer& y, std::uint32_t tokens, bool add);
  void rope_store(const ScratchBuffer& q, const ScratchBuffer& k, const ScratchBuffer& v,
                  const ScratchBuffer& angles, const DeviceChunks& chunks,
                  const AttentionShape& shape, std::uint32_t rotated, bool split_halves);
  // Writes `out`, by way of `partial` and `partial_weights` where shape.ranges > 1.
  void attention(const ScratchBuffer& q, const ScratchBuffer& out, const ScratchBuffer& partial,
                 const ScratchBuffer& partial_weights, const DeviceChunks& chunks,
                 const AttentionShape& shape);
  void gate(const ScratchBuffer& gate, const ScratchBuffer& up, std::uint32_t values,
            GateKind kind);
  void softcap(const ScratchBuffer& x, std::uint32_t values, float cap);
  // Reads to the host without blocking.
  void read(const ScratchBuffer& from, void* to, std::uint64_t bytes);

 private:
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
    kCount,
  };
  using Grid = std::array<std::size_t, 3>;

  explicit KernelCalls(const Device& device) : device_(device) {}
  // Sets arguments 1 … and launches; argument 0 is the stop flag, set once.
  template <class... Arguments>
  void call(Name name, const Grid& grid, const Arguments&... arguments);
  void set(cl_kernel kernel, cl_uint index, std::uint32_t value);
  void set(cl_kernel kernel, cl_uint index, std::uint64_t value);
  void set(cl_kernel kernel, cl_uint index, float value);
  void set(cl_kernel kernel, cl_uint index, const ScratchBuffer& buffer);
  void set(cl_kernel kernel, cl_uint index, const KernelAddress& address);
  void note(cl_int status) noexcept {
    if (status_ == CL_SUCCESS) status_ = status;
  }
  void fail(cl_int status, const char* operation, Name name);
  void keep_event(cl_event event);

  const Device& device_;
  std::array<cl::Kernel, static_cast<std::size_t>(Name::kCount)> kernels_;
  cl_int status_ = CL_SUCCESS;
  Error error_;
  bool events_wanted_ = false;
  cl::Event first_;
  cl::Event last_;
};

}  // namespace mzcache::gpu
