// What dispatchers know of an actor's handlers at compile time: the message's name, the unit it is
// about, the stage its handling counts as, and which optional members the actor has.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "actors/actor.h"
#include "actors/timeline.h"

namespace mzcache::actors::detail {

// "ReadUnit" out of the compiler's spelling of this function.
template <class Message>
consteval std::string_view unqualified_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("Message = ") + 10);
  text = text.substr(0, text.find_first_of(";]"));
  const std::size_t scope = text.rfind("::");
  return scope == std::string_view::npos ? text : text.substr(scope + 2);
}

template <class Message>
struct MessageName {
  static constexpr auto kStorage = [] {
    constexpr std::string_view kName = unqualified_name<Message>();
    std::array<char, kName.size() + 1> storage{};
    for (std::size_t i = 0; i < kName.size(); ++i) storage[i] = kName[i];
    return storage;
  }();
};
// Static, zero-terminated.
template <class Message>
inline constexpr const char* kMessageName = MessageName<Message>::kStorage.data();

template <class A>
concept WaitsOnDevice = requires(A& actor) {
  { actor.wait_source() } -> std::convertible_to<WaitSource*>;
  { actor.on_device() } noexcept;
};
template <class A>
concept ReportsIdle = requires(const A& actor) {
  { actor.idle() } noexcept -> std::convertible_to<bool>;
};

template <class A, class Inbox = typename A::Inbox>
struct HandlersAreNoexcept;
template <class A, class... Messages>
struct HandlersAreNoexcept<A, std::variant<Messages...>>
    : std::bool_constant<(noexcept(std::declval<A&>().on(std::declval<Messages&&>())) && ...)> {};

// The span a handler run will be: everything but its times and place. Taken before the handler,
// which may move the message away.
template <class A, class Message>
SpanRecord describe(const Message& message) noexcept {
  SpanRecord span;
  span.name = kMessageName<Message>;
  if constexpr (requires {
                  { A::stage(message) } -> std::same_as<Stage>;
                }) {
    span.stage = A::stage(message);
  }
  if constexpr (requires {
                  { message.unit } -> std::convertible_to<UnitId>;
                }) {
    span.unit = message.unit;
    span.has_unit = true;
  } else if constexpr (requires {
                         { message.units.front() } -> std::convertible_to<UnitId>;
                       }) {
    if (!message.units.empty()) {
      span.unit = message.units.front();
      span.has_unit = true;
    }
  }
  return span;
}

}  // namespace mzcache::actors::detail
