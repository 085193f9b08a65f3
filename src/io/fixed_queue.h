// A FIFO whose memory is taken once: devices work while memory is short and must not allocate then.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace mzcache::io {

// Not thread-safe.
template <class T>
class FixedQueue {
 public:
  explicit FixedQueue(std::size_t capacity) : items_(capacity) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] bool full() const noexcept { return size_ == items_.size(); }
  [[nodiscard]] const T& front() const noexcept { return items_[head_]; }

  // Only when not full.
  void push(T item) noexcept {
    items_[(head_ + size_) % items_.size()] = std::move(item);
    ++size_;
  }
  // Only when not empty.
  T pop() noexcept {
    T item = std::move(items_[head_]);
    head_ = (head_ + 1) % items_.size();
    --size_;
    return item;
  }
  void clear() noexcept { size_ = 0; }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace mzcache::io
