// Restoring (paper §4.4, forward-in): brings units back in the order the forward pass meets them.
//
// Two paths, storage and in-memory swap, each in forward order and with a window of bytes of its
// own (credits) by which memory is asked for ahead: neither waits for the other. Everything behind
// follows from the order of AllocateUnits. State: units still to be asked for, units on their way.
// Invariant: a unit on its way is `moving`, and becomes resident only by UnitReady.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/engine_state.h"
#include "mzcache/reports.h"

namespace mzcache::engine {

class Restoring {
 public:
  explicit Restoring(EngineState& state) : state_(state) {}

  // Starts a report: whatever comes back from now on counts to it.
  void begin_report();
  // Everything missing that a forward pass over `context` needs, from its next token on, but for
  // chunks that are read in place; where empty, that any pass over any context may need.
  // The context whose content is lost, if any: nothing is asked for then.
  [[nodiscard]] std::optional<std::uint32_t> want(std::optional<std::uint32_t> context);
  // Of what is wanted, only the first units that make up `bytes`.
  void limit(std::uint64_t bytes);
  // Asks for units as far as the window allows.
  void pump();
  // No more units are asked for; those on their way arrive.
  void stop() {
    for (Path& path : paths_) path.waiting.clear();
  }

  void on(const actors::UnitsAllocated& message);
  void on(const actors::UnitReady& message);
  void on(const actors::UnitFailed& message);
  // The device computed in this interval (for the report's overlap).
  void computed(actors::Nanoseconds begin, actors::Nanoseconds end);

  [[nodiscard]] bool idle() const noexcept {
    return quiet() && storage().waiting.empty() && memory().waiting.empty();
  }
  [[nodiscard]] bool quiet() const noexcept {
    return storage().on_way.empty() && memory().on_way.empty();
  }
  [[nodiscard]] RestoreReport report() const;

 private:
  struct ForwardOrder {
    bool operator()(const actors::UnitId& a, const actors::UnitId& b) const noexcept;
  };
  using Units = std::set<actors::UnitId, ForwardOrder>;
  struct Path {
    Units waiting;
    Units on_way;
    std::uint64_t bytes_on_way = 0;
  };
  [[nodiscard]] const Path& storage() const noexcept { return paths_[0]; }
  [[nodiscard]] const Path& memory() const noexcept { return paths_[1]; }
  [[nodiscard]] Path& path_of(actors::UnitId unit) noexcept;
  [[nodiscard]] std::vector<actors::UnitId> next_run(const Units& waiting) const;
  void pump(Path& path);
  void ask(Path& path, std::vector<actors::UnitId> run);
  void send(actors::AllocateUnits message);
  void arrived(actors::UnitId unit);
  void fill_held();

  EngineState& state_;
  std::array<Path, 2> paths_;
  std::size_t next_decompressor_ = 0;
  // Units that get memory first, with where they come from, in forward order.
  std::vector<std::pair<actors::UnitId, actors::Origin>> held_;
  std::uint32_t held_allocated_ = 0;
  RestoreReport report_;
  bool anything_ = false;  // the report has units
  actors::Nanoseconds first_{0};
  actors::Nanoseconds last_{0};
  std::vector<std::pair<actors::Nanoseconds, actors::Nanoseconds>> computed_;
};

}  // namespace mzcache::engine
