// Kernels with their arguments, one function per operation: what both kernel sets do, behind one
// interface.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/attention_shape.h"
#include "gpu/layer_recipe.h"
#include "gpu/program.h"
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
  // Activations of 8 bits are good enough; elsewhere two planes of them are used.
  bool coarse = false;
};

// In a chunk table of the CPU set: attention decodes this chunk as it reads it. Addresses of
// chunks, encoded or not, are even.
inline constexpr std::uint64_t kEncodedTag = 1;

// Entries of a chunk table: of a chunk that is resident, and of one that lies encoded.
[[nodiscard]] inline std::uint64_t table_entry(const KernelAddress& address) noexcept {
  return address.pointer != nullptr ? reinterpret_cast<std::uint64_t>(address.pointer)
                                    : address.offset;
}
[[nodiscard]] inline std::uint64_t table_entry(std::span<const std::byte> encoded) noexcept {
  return reinterpret_cast<std::uint64_t>(encoded.data()) | kEncodedTag;
}

// The chunks of one layer of one context.
struct DeviceChunks {
  KernelAddress base;  // kBuffers: the layer's KV buffer; else unused
  const ScratchBuffer* table = nullptr;
  std::uint64_t table_first = 0;
  bool encoded = false;  // some of them are (kEncodedTag)
};

// Enqueues on the device's queue. The first failure sticks and makes later calls do nothing, so a
// sequence is checked once, by take_status(). One owner thread.
class KernelCalls {
 public:
  // The set that `kernels` was made of. `operations`: about how many calls a slice makes.
  [[nodiscard]] static Result<std::unique_ptr<KernelCalls>> create(const Device& device,
                                                                   const Kernels& kernels,
                                                                   const StopFlag& stop,
                                                                   std::uint32_t operations = 256);
  virtual ~KernelCalls() = default;
  KernelCalls(const KernelCalls&) = delete;
  KernelCalls& operator=(const KernelCalls&) = delete;

  // From here on the events of the first and of the last launch are kept.
  void begin_events(bool wanted);
  [[nodiscard]] const cl::Event& first_event() const noexcept { return first_; }
  [[nodiscard]] const cl::Event& last_event() const noexcept { return last_; }
  // A marker behind what was enqueued, for sequences that may hold no launch at all.
  void marker();
  [[nodiscard]] Result<void> take_status();

  // A slice begins; nothing is under way. `undisturbed`: nothing else will want the cores until it
  // ends, so that calls may be gathered and run as one.
  virtual void begin_slice(bool undisturbed);
  // Whether calls are being gathered; launch() then runs them, with events as begin_events says.
  [[nodiscard]] virtual bool gathering() const noexcept { return false; }
  virtual void launch() {}
  // Declares memory reached through chunk tables (SVM).
  virtual void declare_pointers(const std::vector<const void*>&) {}

  virtual void embed(const ScratchBuffer& rows, const actors::EmbeddingDescription& embedding,
                     std::uint32_t columns, std::uint32_t tokens, const ScratchBuffer& out) = 0;
  // row_map may be null; then rows map to themselves.
  virtual void rms_norm(const ScratchBuffer& in, const ScratchBuffer& out,
                        const DeviceTensor& weight, std::uint32_t rows, float epsilon,
                        const ScratchBuffer* row_map, bool add) = 0;
  // x is [tokens][columns]; `packed` holds x in the order the product wants, for as long as x stays
  // as it is: several products of one x pack it once.
  virtual void matmul(const DeviceTensor& weight, const ScratchBuffer& x,
                      const ScratchBuffer& packed, const ScratchBuffer& y, std::uint32_t tokens,
                      bool add) = 0;
  // Most bytes `packed` needs.
  [[nodiscard]] virtual std::uint64_t packed_bytes(std::uint32_t columns,
                                                   std::uint32_t tokens) const = 0;
  virtual void rope_store(const ScratchBuffer& q, const ScratchBuffer& k, const ScratchBuffer& v,
                          const ScratchBuffer& angles, const DeviceChunks& chunks,
                          const AttentionShape& shape, std::uint32_t rotated,
                          bool split_halves) = 0;
  // Writes `out`, by way of `partial` and `partial_weights` where shape.ranges > 1.
  virtual void attention(const ScratchBuffer& q, const ScratchBuffer& out,
                         const ScratchBuffer& partial, const ScratchBuffer& partial_weights,
                         const DeviceChunks& chunks, const AttentionShape& shape) = 0;
  virtual void gate(const ScratchBuffer& gate, const ScratchBuffer& up, std::uint32_t values,
                    GateKind kind) = 0;
  virtual void softcap(const ScratchBuffer& x, std::uint32_t values, float cap) = 0;
  // Adds Σ q² over every `every`-th token to sums[sums_first + channel].
  virtual void query_energy(const ScratchBuffer& q, const ScratchBuffer& sums,
                            std::uint64_t sums_first, std::uint32_t width, std::uint32_t tokens,
                            std::uint32_t every) = 0;
  // Reads to the host without blocking.
  void read(const ScratchBuffer& from, void* to, std::uint64_t bytes);

 protected:
  explicit KernelCalls(const Device& device) : device_(device) {}

  [[nodiscard]] const Device& device() const noexcept { return device_; }
  [[nodiscard]] bool failed() const noexcept { return status_ != CL_SUCCESS; }
  void fail(cl_int status, const char* operation, const char* context);
  // Launches `kernel` with work-groups of one.
  void enqueue(cl_kernel kernel, const std::array<std::size_t, 3>& grid, const char* name);
  // Whether `packed` holds x in this form already; it does from now on.
  [[nodiscard]] bool packed_before(const ScratchBuffer& x, std::uint32_t form);
  // `out` is something else now.
  void written(const ScratchBuffer& out) noexcept {
    if (packed_from_ == &out) packed_from_ = nullptr;
  }

 private:
  void keep_event(cl_event event);

  const Device& device_;
  cl_int status_ = CL_SUCCESS;
  Error error_;
  bool events_wanted_ = false;
  cl::Event first_;
  cl::Event last_;
  const ScratchBuffer* packed_from_ = nullptr;
  std::uint32_t packed_form_ = 0;
};

// The sets' own constructors, behind KernelCalls::create.
[[nodiscard]] Result<std::unique_ptr<KernelCalls>> create_portable_calls(const Device& device,
                                                                         const Kernels& kernels,
                                                                         const StopFlag& stop);
[[nodiscard]] Result<std::unique_ptr<KernelCalls>> create_cpu_calls(const Device& device,
                                                                    const Kernels& kernels,
                                                                    const StopFlag& stop,
                                                                    std::uint32_t operations);

}  // namespace mzcache::gpu
