// A lossless codec for the simulation: rows that are spelled-out seeds are kept as seeds. One for
// each tier, of different sizes and rates, neither of which decodes what the other encoded.
#pragma once

#include "actors/ports.h"
#include "actors/sim_dispatcher.h"
#include "actors/tier_codecs.h"
#include "sim/sim_world.h"

namespace mzcache::sim {

class SimCodec final : public actors::KvCodec {
 public:
  SimCodec(actors::SimDispatcher& dispatcher, const MachineOptions& machine, SharedCores& cores,
           actors::CodecTier tier)
      : dispatcher_(dispatcher), machine_(machine), cores_(cores), tier_(tier) {}

  [[nodiscard]] std::string_view name() const noexcept override {
    return for_storage() ? "sim-storage" : "sim";
  }
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
  // The seed of a row of a chunk in the in-memory swap's form.
  [[nodiscard]] static std::uint64_t encoded_seed(std::span<const std::byte> encoded,
                                                  const actors::ChunkLayout& layout,
                                                  std::uint32_t token) noexcept;

 private:
  [[nodiscard]] bool for_storage() const noexcept { return tier_ == actors::CodecTier::kStorage; }
  // What is left of a row.
  [[nodiscard]] std::uint64_t encoded_row(std::uint64_t row) const noexcept;
  [[nodiscard]] static std::uint64_t encoded_row_in_memory(std::uint64_t row) noexcept;
  // Of a token, where rows of so many bytes are left.
  [[nodiscard]] static std::uint64_t seed_at(std::span<const std::byte> encoded,
                                             std::uint64_t row_left, std::uint32_t token) noexcept;
  // The first word: how many tokens, and whose they are.
  [[nodiscard]] std::uint64_t mark(std::uint64_t tokens) const noexcept {
    return tokens | static_cast<std::uint64_t>(tier_) << 32;
  }

  actors::SimDispatcher& dispatcher_;
  const MachineOptions& machine_;
  SharedCores& cores_;
  const actors::CodecTier tier_;
};

}  // namespace mzcache::sim
