// Reading and writing of payloads with every step checked. Little-endian machines only, as the
// rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace mzcache::codec {

// After a failed step everything else fails too.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class Value>
  [[nodiscard]] Value get() {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value value{};
    const auto bytes = take(sizeof(Value));
    if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  // Empty where there are not so many.
  [[nodiscard]] std::span<const std::byte> take(std::uint64_t bytes) {
    if (!ok_ || bytes > rest_.size()) {
      ok_ = false;
      return {};
    }
    const auto taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> bytes) : all_(bytes) {}

  template <class Value>
  void put(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    const auto room = take(bytes.size());
    if (!room.empty()) std::memcpy(room.data(), bytes.data(), bytes.size());
  }
  // Room to be filled; empty where there is none.
  [[nodiscard]] std::span<std::byte> take(std::uint64_t bytes) {
    if (!ok_ || bytes > all_.size() - used_) {
      ok_ = false;
      return {};
    }
    used_ += bytes;
    return all_.subspan(used_ - bytes, bytes);
  }
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }

 private:
  std::span<std::byte> all_;
  std::uint64_t used_ = 0;
  bool ok_ = true;
};

}  // namespace mzcache::codec
