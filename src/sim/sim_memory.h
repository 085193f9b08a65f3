// Simulated shared memory: real bytes, virtual cost, seeded failure. What is released is gone:
// whoever touches a unit without memory is found out.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/ports.h"
#include "actors/sim_dispatcher.h"
#include "sim/sim_world.h"

namespace mzcache::sim {

class SimMemory final : public actors::SharedMemory {
 public:
  SimMemory(actors::SimDispatcher& dispatcher, const actors::ModelDescription& model,
            const MachineOptions& machine, SharedCores& cores)
      : dispatcher_(dispatcher), model_(model), machine_(machine), cores_(cores) {}

  [[nodiscard]] Result<void> open_context(std::uint32_t context, std::uint32_t chunks) override;
  void close_context(std::uint32_t context) noexcept override;
  [[nodiscard]] Result<void> populate(std::span<const actors::UnitId> run) override;
  void release(std::span<const actors::UnitId> units) noexcept override;
  [[nodiscard]] std::span<std::byte> bytes(actors::UnitId unit) noexcept override;
  [[nodiscard]] Result<std::span<std::byte>> reserve_swap(std::uint64_t bytes) override;
  [[nodiscard]] Result<void> populate_segment(std::size_t index) override;
  void release_segment(std::size_t index) noexcept override;
  [[nodiscard]] std::uint64_t process_bytes() const noexcept override { return held_; }
  [[nodiscard]] std::uint64_t resident_set_bytes() const noexcept override { return held_; }

  [[nodiscard]] bool populated(actors::UnitId unit) const { return units_.contains(unit); }
  // Somebody reads these bytes of the in-memory swap: its segments must have memory.
  void touch_swap(std::span<const std::byte> bytes);
  // The first violation seen: memory given twice, taken twice, touched without being there.
  [[nodiscard]] const std::string& violation() const noexcept { return violation_; }
  void violate(std::string what) {
    if (violation_.empty()) violation_ = std::move(what);
  }
  [[nodiscard]] std::uint64_t units_held_bytes() const noexcept { return held_ - segments_held_; }

 private:
  [[nodiscard]] std::uint64_t size_of(actors::UnitId unit) const noexcept;
  [[nodiscard]] bool fails();

  actors::SimDispatcher& dispatcher_;
  const actors::ModelDescription& model_;
  const MachineOptions& machine_;
  SharedCores& cores_;
  std::map<std::uint32_t, std::uint32_t> contexts_;
  std::map<actors::UnitId, std::vector<std::byte>> units_;
  // What units without content show: zeros that are never written, so that they take no memory.
  std::unique_ptr<std::byte, decltype(&std::free)> zeros_{nullptr, &std::free};
  std::vector<std::byte> nothing_;  // where access without memory lands
  // Zeros until used; untouched pages take no memory, and worlds are many.
  std::unique_ptr<std::byte, decltype(&std::free)> swap_{nullptr, &std::free};
  std::vector<bool> segments_;
  std::uint64_t held_ = 0;
  std::uint64_t segments_held_ = 0;
  std::string violation_;
};

}  // namespace mzcache::sim
