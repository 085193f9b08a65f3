// Dispatchers run actors. Both have the same shape:
//
//   auto allocator = dispatcher.spawn<Allocator>({ActorKind::kAllocator, "allocator-0"}, args…);
//   allocator.actor->connect(…ports…);
//   dispatcher.start();
//   …
//   dispatcher.stop();   // every inbox drained, every thread joined
//
// spawn() constructs the actor as A(args…). The dispatcher owns it until its own destruction;
// actors are destroyed in the reverse order of their spawning.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "actors/actor.h"
#include "actors/timeline.h"

namespace mzcache::actors {

// One actor and its inbox, as a dispatcher sees it.
class Cell {
 public:
  Cell(ActorSpec spec, std::uint32_t track) : spec_(std::move(spec)), track_(track) {}
  virtual ~Cell() = default;
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  [[nodiscard]] const ActorSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] std::uint32_t track() const noexcept { return track_; }

 private:
  ActorSpec spec_;
  std::uint32_t track_;
};

class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  [[nodiscard]] virtual const Clock& clock() const noexcept = 0;
  [[nodiscard]] virtual Timeline& timeline() noexcept = 0;
};

}  // namespace mzcache::actors
