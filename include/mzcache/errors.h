// Errors as values: what went wrong, the native code behind it, and where.
//
// Inside the library every fallible function returns Result<T>. Public calls complete with a
// std::error_code of mzcache_category() plus the detail in the report; synchronous public functions
// throw Exception.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

namespace mzcache {

enum class ErrorCode : int {
  kOk = 0,
  kBadArgument,  // a value the caller passed is out of its range
  kBadConfig,    // a key or value of the configuration
  kNotFound,     // a file, device, session or core that is not there
  kNotYet,       // named in the contract, not built yet
  kBadFormat,    // a file breaks its format; context names file, field, limit
  kUnsupported,  // a valid file or device with a feature we lack; context lists what is supported
  kIo,           // read or write failed; native is the errno
  kNoSpace,      // the disk or a configured budget is full
  kNoMemory,     // allocation failed
  kChecksum,     // data came back different from what was written
  kDevice,       // the OpenCL device failed; native is the cl_int
  kCompile,      // a kernel did not build; context names kernel, device, log
  kCancelled,    // the caller cancelled, or the runtime is shutting down
  kContextFull,  // no position left in the context
  kInternal,     // an invariant did not hold; the operation was stopped
};

const std::error_category& mzcache_category() noexcept;
inline std::error_code make_error_code(ErrorCode code) noexcept {
  return {static_cast<int>(code), mzcache_category()};
}

// One failure, with enough in it to act on.
struct Error {
  ErrorCode code = ErrorCode::kOk;
  std::int64_t native = 0;  // errno (positive) or cl_int, 0 if none
  std::string operation;    // what was being done: "read", "open model", ...
  std::string context;      // which file, field, limit
  // What the caller set wrongly, where it is that: a member of a public struct ("context_tokens")
  // or a key of the configuration ("device.name").
  std::string field = {};
  std::string hint = {};  // what to do about it, where there is something to do

  // One line for people: "open model: m.gguf: No such file or directory; give a GGUF file".
  [[nodiscard]] std::string message() const;
};

// What synchronous public functions throw: a std::system_error whose what() is Error::message().
class Exception : public std::system_error {
 public:
  explicit Exception(Error error);
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  Error error_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(*-explicit-*)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(*-explicit-*)

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}  // NOLINT(*-explicit-*)
  [[nodiscard]] bool ok() const noexcept { return !failed_; }
  explicit operator bool() const noexcept { return ok(); }
  Error& error() & { return error_; }
  const Error& error() const& { return error_; }

 private:
  bool failed_ = false;
  Error error_;
};

// The value, or an Exception: for public synchronous functions.
template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw Exception(std::move(result).error());
  return std::move(result).value();
}

}  // namespace mzcache

template <>
struct std::is_error_code_enum<mzcache::ErrorCode> : std::true_type {};
