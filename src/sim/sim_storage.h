// A simulated disk: the model file and a swap file, a queue with latency and bandwidth, and every
// fault a real one has: errors, short transfers, busy answers, a full disk, bits that changed.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "actors/ports.h"
#include "actors/sim_dispatcher.h"
#include "sim/sim_world.h"

namespace mzcache::sim {

// What both devices (the reader's and the writer's) see.
struct SimDisk {
  std::shared_ptr<const std::vector<std::byte>> model_file;
  std::uint64_t model_bytes = 0;
  std::vector<std::byte> swap_file;  // its size is what was allocated
  std::uint64_t swap_bytes = 0;      // the same where there is no content
  actors::Nanoseconds busy_until{0};
};

class SimStorage final : public actors::BlockDevice {
 public:
  SimStorage(actors::SimDispatcher& dispatcher, std::shared_ptr<SimDisk> disk,
             const MachineOptions& machine, SharedCores& cores)
      : dispatcher_(dispatcher), disk_(std::move(disk)), machine_(machine), cores_(cores) {}

  void wait() noexcept override {}
  void wake() noexcept override {}
  void set_notify(std::function<void()> notify) override { notify_ = std::move(notify); }
  [[nodiscard]] std::size_t depth() const noexcept override { return machine_.depth; }
  [[nodiscard]] std::uint64_t block_bytes() const noexcept override { return machine_.block_bytes; }
  [[nodiscard]] Result<void> submit(const actors::BlockRequest& request) override;
  void flush() override {}
  [[nodiscard]] std::size_t reap(std::span<actors::BlockCompletion> out) noexcept override;
  [[nodiscard]] Result<void> grow(actors::FileId file, std::uint64_t bytes) override;
  [[nodiscard]] std::string name(actors::FileId file) const override;

  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }

 private:
  [[nodiscard]] bool chance(double probability);
  [[nodiscard]] std::int64_t transfer(const actors::BlockRequest& request);

  actors::SimDispatcher& dispatcher_;
  std::shared_ptr<SimDisk> disk_;
  const MachineOptions& machine_;
  SharedCores& cores_;
  std::function<void()> notify_;
  std::deque<actors::BlockCompletion> completed_;
  std::size_t in_flight_ = 0;
};

}  // namespace mzcache::sim
