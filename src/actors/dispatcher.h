// Dispatchers run actors. Both have the same shape:
//
//   auto allocator = dispatcher.spawn<Allocator>({ActorKind::kAllocator, "allocator-0"}, args…);
//   allocator.actor->connect(…ports…);
//   dispatcher.start();
//   …
//   dispatcher.stop();   // every inbox drained, every thread joined
//
// spawn() constructs the actor as A(args…). The dispatcher owns it until its own destruction.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/actor.h"
#include "actors/timeline.h"

namespace mzcache::actors {

// One actor and its inbox, as a dispatcher sees it.
class Cell {
 public:
  virtual ~Cell() = default;
  [[nodiscard]] virtual const ActorSpec& spec() const noexcept = 0;
};

class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  [[nodiscard]] virtual const Clock& clock() const noexcept = 0;
  [[nodiscard]] virtual Timeline& timeline() noexcept = 0;
};

}  // namespace mzcache::actors
