// A lossless codec for the simulation: rows that are spelled-out seeds are kept as seeds, others
// raw.
#pragma once

#include "actors/ports.h"
#include "actors/sim_dispatcher.h"
#include "sim/sim_world.h"

namespace mzcache::sim {

class SimCodec final : public actors::KvCodec {
 public:
  SimCodec(actors::SimDispatcher& dispatcher, const MachineOptions& machine, SharedCores& cores)
      : dispatcher_(dispatcher), machine_(machine), cores_(cores) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "sim"; }
  [[nodiscard]] std::uint32_t version() const noexcept override { return 1; }
  [[nodiscard]] bool lossless() const noexcept override { return true; }
  [[nodiscard]] std::uint64_t bound(const actors::ChunkLayout& layout,
                                    std::uint32_t token_count) const noexcept override;
  [[nodiscard]] std::uint64_t scratch_bytes(const actors::ChunkLayout&) const noexcept override {
    return 0;
  }
  [[nodiscard]] Result<std::uint64_t> encode(const actors::ChunkView& chunk,
                                             std::span<std::byte> out,
                                             std::span<std::byte> scratch) const override;
  [[nodiscard]] Result<void> decode(std::span<const std::byte> encoded,
                                    const actors::MutableChunkView& chunk,
                                    std::span<std::byte> scratch) const override;
  [[nodiscard]] std::span<const std::byte> in_place(
      std::span<const std::byte> encoded, const actors::ChunkLayout& layout,
      std::uint32_t token_count) const noexcept override;
  // The seed of a row of an encoded chunk.
  [[nodiscard]] static std::uint64_t encoded_seed(std::span<const std::byte> encoded,
                                                  const actors::ChunkLayout& layout,
                                                  std::uint32_t token) noexcept;

 private:
  actors::SimDispatcher& dispatcher_;
  const MachineOptions& machine_;
  SharedCores& cores_;
};

}  // namespace mzcache::sim
