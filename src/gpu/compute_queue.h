// The ComputeQueue port for OpenCL: a model's layers as sequences of kernels.
#pragma once

#include <future>
#include <memory>

#include "actors/model_description.h"
#include "actors/ports.h"
#include "gpu/program.h"
#include "gpu/unit_memory.h"

namespace mzcache::gpu {

struct ComputeOptions {
  std::uint32_t slice_tokens_max = 512;
  std::uint32_t context_tokens_max = 0;  // positions of the longest context; 0: the model's own
};

// Kernels that may still be compiling; the first slice waits for them.
using PendingKernels = std::shared_future<Result<Kernels>>;

// `memory`, `device` outlive the queue. kUnsupported where the model needs what the set lacks.
[[nodiscard]] Result<std::unique_ptr<actors::ComputeQueue>> create_compute_queue(
    Device& device, const Kernels& kernels, UnitMemory& memory,
    const actors::ModelDescription& model, const ComputeOptions& options);
// The same, whose first slice fails with what compiling failed with.
[[nodiscard]] Result<std::unique_ptr<actors::ComputeQueue>> create_compute_queue(
    Device& device, PendingKernels kernels, UnitMemory& memory,
    const actors::ModelDescription& model, const ComputeOptions& options);

}  // namespace mzcache::gpu
