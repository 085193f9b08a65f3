// A cursor over a file's leading bytes that never steps past them. Not thread-safe.
//
// The first failure sticks: later reads return zeros, so callers check `failed()` where it matters
// instead of after every field.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "mzcache/errors.h"

namespace mzcache::engine {

static_assert(std::endian::native == std::endian::little, "GGUF fields are read in place");

class GgufCursor {
 public:
  GgufCursor(std::string_view name, std::string_view header, std::uint64_t file_bytes)
      : name_(name), header_(header.substr(0, file_bytes)), file_bytes_(file_bytes) {}

  [[nodiscard]] std::uint64_t at() const noexcept { return at_; }
  // Bytes between here and the end of the file (not of what was read of it).
  [[nodiscard]] std::uint64_t left() const noexcept { return file_bytes_ - at_; }
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  [[nodiscard]] bool failed() const noexcept { return error_.code != ErrorCode::kOk; }
  [[nodiscard]] std::uint64_t wanted_bytes() const noexcept { return wanted_bytes_; }
  [[nodiscard]] Error take_error() { return std::move(error_); }

  // What is being read now, for messages: "key \"general.name\"".
  void set_subject(std::string subject) { subject_ = std::move(subject); }
  [[nodiscard]] const std::string& subject() const noexcept { return subject_; }

  // "file: subject: detail". Returns false, to end a chain of checks.
  bool fail(const std::string& detail, ErrorCode code = ErrorCode::kBadFormat) {
    if (failed()) return false;
    error_ = {code, 0, "read model", name_ + ": " + subject_ + ": " + detail};
    return false;
  }

  // Appends where in the subject the failure was.
  void add_detail(const std::string& detail) { error_.context += " (" + detail + ")"; }

  // `bytes` bytes from here, or an empty view and failure.
  std::string_view take(std::uint64_t bytes, std::string_view what) {
    if (failed()) return {};
    if (bytes > left()) {
      fail(std::string(what) + " needs " + std::to_string(bytes) + " bytes at offset " +
           std::to_string(at_) + ", past the end of the file (" + std::to_string(file_bytes_) +
           " bytes); is it cut off?");
      return {};
    }
    if (bytes > header_.size() - at_) {
      wanted_bytes_ = at_ + bytes;
      fail(std::string(what) + " at offset " + std::to_string(at_) + " lies beyond the " +
           std::to_string(header_.size()) + " header bytes given");
      return {};
    }
    const std::string_view view = header_.substr(at_, bytes);
    at_ += bytes;
    return view;
  }

  template <class T>
  T read(std::string_view what) {
    const std::string_view bytes = take(sizeof(T), what);
    T value{};
    if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

 private:
  std::string name_;
  std::string_view header_;
  std::uint64_t file_bytes_;
  std::uint64_t at_ = 0;
  std::uint64_t wanted_bytes_ = 0;
  std::string subject_;
  Error error_;
};

}  // namespace mzcache::engine
