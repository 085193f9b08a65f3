// A model on a compute queue, without the engine: fills units, feeds tokens, collects logits.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/compute_queue.h"
#include "gpu/device.h"
#include "gpu/program.h"
#include "gpu/unit_memory.h"

namespace mzcache::test {

// Where the bytes of a model come from: a file, or a description with generated weights.
struct ModelBytes {
  actors::ModelDescription description;
  // Fills a weight unit's buffer (weights_unit or head_unit).
  std::function<void(actors::UnitId, std::span<std::byte>)> fill;
  std::function<const std::byte*(std::uint32_t token)> embedding_row;
  std::shared_ptr<void> keep;
};
[[nodiscard]] ModelBytes open_model_file(const std::string& path);

// What a test runs on: the device's own choice unless it says otherwise.
struct Setting {
  std::string memory = {};       // a MemoryMode's name
  std::string kernels = "auto";  // auto | portable | cpu
  bool int8 = false;
  std::uint32_t width = 0;  // at most, of vectors; 0: the device's own

  Setting() = default;
  Setting(const char* force_memory) : memory(force_memory) {}         // NOLINT(google-explicit-*)
  Setting(const std::string& force_memory) : memory(force_memory) {}  // NOLINT(google-explicit-*)
  Setting(std::string force_memory, std::string set, bool bytes, std::uint32_t width_max = 0)
      : memory(std::move(force_memory)), kernels(std::move(set)), int8(bytes), width(width_max) {}
};

// One device per setting and process: opening and building take their time. Its kernels are for
// all tensor types.
struct OpenDevice {
  std::unique_ptr<gpu::Device> device;
  gpu::Kernels kernels;
};
[[nodiscard]] OpenDevice& open_device(const Setting& setting = {});
// Whether the CPU set runs on the device that tests get.
[[nodiscard]] bool have_cpu_kernels();

class Forward {
 public:
  Forward(ModelBytes model, const Setting& setting = {}, std::uint32_t context_tokens = 1024,
          std::uint32_t slice_tokens_max = 512);
  ~Forward();
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;

  [[nodiscard]] const actors::ModelDescription& description() const { return model_.description; }
  [[nodiscard]] actors::ComputeQueue& queue() { return *queue_; }
  [[nodiscard]] gpu::UnitMemory& memory() { return *memory_; }
  // Populates the chunks that positions [0, tokens) need.
  void grow(std::uint32_t context, std::uint32_t tokens);
  // Makes the slice of tokens[first …] ready; logits wanted at `rows` (absolute positions).
  [[nodiscard]] actors::ComputeSlice slice(std::span<const std::uint32_t> tokens,
                                           std::uint32_t first, std::uint32_t count,
                                           const std::vector<std::uint32_t>& rows) const;
  // Everything of one slice, waited for. Returns the last completion.
  actors::ComputeCompletion compute(const actors::ComputeSlice& slice);
  // Feeds all tokens in slices of `batch`; logits at `positions`, in that order.
  [[nodiscard]] std::vector<std::vector<float>> logits(std::span<const std::uint32_t> tokens,
                                                       std::uint32_t batch,
                                                       const std::vector<std::uint32_t>& positions);
  // Waits until `ticket` has completed.
  actors::ComputeCompletion wait(std::uint64_t ticket);
  [[nodiscard]] std::vector<actors::ComputeCompletion> completions();

 private:
  ModelBytes model_;
  std::unique_ptr<gpu::UnitMemory> memory_;
  std::unique_ptr<actors::ComputeQueue> queue_;
  std::uint32_t chunks_ = 0;
  std::uint64_t next_ticket_ = 1000;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<actors::ComputeCompletion> completions_;
};

[[nodiscard]] double rms_difference(std::span<const float> a, std::span<const float> b);

}  // namespace mzcache::test
