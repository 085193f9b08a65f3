// A model on its compute queue and nothing else: weights in memory, a context of random keys and
// values, slices of random tokens, timed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/compute_queue.h"
#include "gpu/device.h"
#include "gpu/roofline.h"
#include "mzcache/config.h"

namespace mzcache::tools {

// What one slice asks of the machine at least.
struct Work {
  double operations = 0;  // multiplications and additions
  double bytes = 0;       // of weights and of the context, each read once
};

// Throws Exception. One thread.
class ComputeRig {
 public:
  // Room for `context_tokens` positions, all of them filled.
  ComputeRig(const Config& config, const std::string& model_file, std::uint32_t context_tokens);
  ~ComputeRig();
  ComputeRig(const ComputeRig&) = delete;
  ComputeRig& operator=(const ComputeRig&) = delete;

  [[nodiscard]] const actors::ModelDescription& model() const noexcept { return model_; }
  [[nodiscard]] gpu::Device& device() noexcept { return *device_; }
  [[nodiscard]] const gpu::Kernels& kernels() const noexcept { return kernels_; }
  // Tokens at positions first … first + tokens, in slices of 512 at most, with the last one's
  // logits. Milliseconds from handing them over to having those.
  [[nodiscard]] double run_ms(std::uint32_t first, std::uint32_t tokens);
  [[nodiscard]] Work work(std::uint32_t first, std::uint32_t tokens) const;
  // Attention of one layer alone, over its first chunks; `encoded`: full ones as q8 has them. Where
  // the device does not read those, kUnsupported is thrown.
  [[nodiscard]] double attention_ms(std::uint32_t first, std::uint32_t tokens, bool encoded);
  [[nodiscard]] Work attention_work(std::uint32_t first, std::uint32_t tokens, bool encoded) const;

 private:
  void load_weights();
  void fill_context(std::uint32_t tokens);
  void load_tokens();
  void slice(std::uint32_t first, std::uint32_t tokens, bool last);
  void encode_chunks(std::uint32_t count);
  [[nodiscard]] std::vector<std::uint64_t> table(std::uint32_t encoded) const;

  actors::ModelDescription model_;
  std::unique_ptr<gpu::Device> device_;
  gpu::Kernels kernels_;
  std::unique_ptr<gpu::UnitMemory> memory_;
  std::unique_ptr<actors::ComputeQueue> queue_;
  std::uint32_t chunks_ = 0;
  std::vector<std::vector<std::byte>> encoded_;  // the first layer's first chunks
  std::vector<std::byte> rows_;                  // embeddings of the tokens that are fed
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::uint64_t ticket_ = 0;
  std::uint64_t completed_ = 0;
  Error error_;
};

}  // namespace mzcache::tools
