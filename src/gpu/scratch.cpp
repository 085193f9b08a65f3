#include "gpu/scratch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "actors/units.h"

namespace mzcache::gpu {

Result<void> ScratchBuffer::resize(const Device& device, std::uint64_t bytes) {
  // Never empty, so that it can always be an argument.
  const std::uint64_t wanted = actors::align_up(std::max<std::uint64_t>(bytes, 1), kPageBytes);
  if (wanted <= bytes_ && bytes_ / 2 <= wanted) return {};
  buffer_ = cl::Buffer();
  pages_ = PageReservation();
  bytes_ = 0;
  cl_int status = CL_SUCCESS;
  if (device.info().mode == MemoryMode::kHostMapping) {
    auto pages = PageReservation::create(wanted);
    if (!pages) return pages.error();
    if (auto ok = populate_pages(pages->data(), wanted, false, {}); !ok) return ok;
    pages_ = std::move(*pages);
    buffer_ = cl::Buffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, wanted,
                         pages_.data(), &status);
  } else {
    buffer_ = cl::Buffer(device.context(), CL_MEM_READ_WRITE, wanted, nullptr, &status);
  }
  if (status != CL_SUCCESS) {
    return Error{ErrorCode::kNoMemory, status, "allocate scratch",
                 std::to_string(wanted) + " bytes"};
  }
  bytes_ = wanted;
  return {};
}

Result<void> ScratchBuffer::upload(const Device& device, std::uint64_t offset,
                                   std::span<const std::byte> data) {
  if (data.empty()) return {};
  if (host() != nullptr) {
    std::memcpy(host() + offset, data.data(), data.size());
    return {};
  }
  const cl_int status = clEnqueueWriteBuffer(device.queue()(), buffer_(), CL_FALSE, offset,
                                             data.size(), data.data(), 0, nullptr, nullptr);
  if (status != CL_SUCCESS) return Error{ErrorCode::kDevice, status, "write scratch", ""};
  return {};
}

Result<void> SliceScratch::resize(const Device& device, const actors::ModelDescription& model,
                                  const SliceShape& shape) {
  const std::uint64_t tokens = shape.tokens;
  const std::uint64_t heads_values = tokens * model.heads * model.head_dim;
  std::array<std::pair<ScratchBuffer*, std::uint64_t>, static_cast<std::size_t>(Slot::kCount) + 8>
      wanted;
  std::size_t count = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    wanted[count++] = {&slots[i], tokens * slot_width(model, static_cast<Slot>(i)) * sizeof(float)};
  }
  const bool merges = shape.attention_ranges > 1;
  const std::uint64_t ranges = merges ? shape.attention_ranges : 0;
  wanted[count++] = {&packed, shape.packed_bytes};
  wanted[count++] = {&partial, ranges * heads_values * sizeof(float)};
  wanted[count++] = {&partial_weights, ranges * tokens * model.heads * 2 * sizeof(float)};
  wanted[count++] = {&embedding_rows, tokens * model.embedding.row_bytes};
  wanted[count++] = {&logit_rows, shape.logit_rows * sizeof(std::uint32_t)};
  wanted[count++] = {&angles, tokens * model.rope.dimensions * sizeof(float)};
  const std::uint64_t windowed = model.windowed_rope ? model.windowed_rope->dimensions : 0;
  wanted[count++] = {&windowed_angles, tokens * windowed * sizeof(float)};
  wanted[count++] = {&logits, std::uint64_t{shape.logit_rows} * model.vocabulary * sizeof(float)};
  for (const auto& [buffer, bytes] : wanted) {
    if (auto ok = buffer->resize(device, bytes); !ok) return ok;
  }
  return {};
}

std::uint64_t SliceScratch::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const ScratchBuffer& slot : slots) sum += slot.bytes();
  for (const ScratchBuffer* buffer : {&packed, &partial, &partial_weights, &embedding_rows,
                                      &logit_rows, &angles, &windowed_angles, &logits}) {
    sum += buffer->bytes();
  }
  return sum;
}

}  // namespace mzcache::gpu
