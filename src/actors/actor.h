// The actor system's face: an actor, its cell, references and ports.
//
// An actor is a plain class with `using Inbox = std::variant<Message...>` and one
// `void on(Message&&) noexcept` per message. It owns no thread, never blocks, never reads a wall
// clock. Two dispatchers run the same class: ThreadedDispatcher (one pinned thread per actor) and
// SimDispatcher (one heap ordered by virtual time).
//
// An actor that also waits on a device has `WaitSource* wait_source()` and
// `void on_device() noexcept`, called whenever the device may have completions. Where it also has
// `bool idle() const noexcept`, a dispatcher's stop() waits until it answers true (nothing in
// flight).
//
// An actor may say what a message's handling counts as: `static Stage stage(const Message&)`.
//
// Order: messages of one sender to one receiver arrive in the order sent; nothing else is promised.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "actors/ports.h"

namespace mzcache::actors {

// Which of the config's placement keys an actor follows; also the stage its spans count under.
enum class ActorKind : std::uint8_t {
  kCoordinator,
  kAllocator,
  kStorageReader,
  kStorageWriter,
  kDecompressor,
  kCompressor,
  kPrefill,
};

struct ActorSpec {
  ActorKind kind = ActorKind::kCoordinator;
  std::string name;  // thread and timeline name, at most 15 characters: "decompress-0"
};

namespace detail {
template <class T, class Variant>
struct is_alternative;
template <class T, class... Ts>
struct is_alternative<T, std::variant<Ts...>> : std::disjunction<std::is_same<T, Ts>...> {};
}  // namespace detail

template <class Message, class Actor>
inline constexpr bool kAccepts = detail::is_alternative<Message, typename Actor::Inbox>::value;

// The type-erased place an actor of inbox type `Inbox` is reached at. Thread-safe, never blocks.
template <class Inbox>
class Address {
 public:
  virtual ~Address() = default;
  virtual void post(Inbox&& message) noexcept = 0;
};

// A typed outgoing port: all an actor knows of its neighbour. Copyable; valid while the dispatcher
// lives. An unconnected port drops the message.
template <class Message>
class Port {
 public:
  Port() = default;
  template <class Inbox>
    requires(detail::is_alternative<Message, Inbox>::value)
  explicit Port(Address<Inbox>& address)
      : target_(&address), send_([](void* target, Message&& message) noexcept {
          static_cast<Address<Inbox>*>(target)->post(Inbox(std::move(message)));
        }) {}

  // NOLINTNEXTLINE(performance-unnecessary-value-param): the message is moved on
  void send(Message message) const noexcept {
    if (send_ != nullptr) send_(target_, std::move(message));
  }
  [[nodiscard]] bool connected() const noexcept { return send_ != nullptr; }

 private:
  void* target_ = nullptr;
  void (*send_)(void*, Message&&) noexcept = nullptr;
};

// A running actor: where to post, and the object itself for wiring before start().
template <class A>
struct Ref {
  A* actor = nullptr;
  Address<typename A::Inbox>* address = nullptr;
  std::uint32_t track = 0;  // its row on the timeline, for spans the actor records itself

  template <class Message>
  [[nodiscard]] Port<Message> port() const {
    return Port<Message>(*address);
  }
};

}  // namespace mzcache::actors
