#include "sim/sim_storage.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mzcache::sim {

using actors::BlockRequest;
using actors::FileId;
using actors::kBlockAlignment;
using actors::Nanoseconds;

bool SimStorage::chance(double probability) {
  return probability > 0 &&
         std::uniform_real_distribution<>(0, 1)(dispatcher_.random()) < probability;
}

std::string SimStorage::name(FileId file) const {
  return file == FileId::kModel ? "model file" : "swap file";
}

Result<void> SimStorage::submit(const BlockRequest& request) {
  const auto address = reinterpret_cast<std::uintptr_t>(request.buffer.data());
  static_cast<void>(address);  // heap memory here: offsets and lengths are what can be checked
  if (request.offset % kBlockAlignment != 0 || request.buffer.empty() ||
      request.buffer.size() % kBlockAlignment != 0) {
    return Error{ErrorCode::kInternal, EINVAL, "submit", "not aligned"};
  }
  const bool read = request.operation == BlockRequest::Operation::kRead;
  const bool own_rate = request.file == FileId::kSwap && machine_.swap_read_bytes_per_s > 0;
  const double rate = !read      ? machine_.write_bytes_per_s
                      : own_rate ? machine_.swap_read_bytes_per_s
                                 : machine_.read_bytes_per_s;
  const Nanoseconds begin = std::max(dispatcher_.now(), disk_->busy_until);
  const Nanoseconds alone(
      static_cast<std::int64_t>(static_cast<double>(request.buffer.size()) / rate * 1e9));
  disk_->busy_until = begin + (read ? cores_.run(begin, alone, machine_.contention.read) : alone);
  ++in_flight_;
  dispatcher_.at(disk_->busy_until + machine_.storage_latency, [this, request] {
    --in_flight_;
    completed_.push_back({request.tag, transfer(request)});
    if (notify_) notify_();
  });
  return {};
}

// What the disk does when a request's time has come.
std::int64_t SimStorage::transfer(const BlockRequest& request) {
  const bool read = request.operation == BlockRequest::Operation::kRead;
  if (chance(machine_.busy)) return -EAGAIN;
  if (request.file == FileId::kModel && chance(machine_.model_read_error)) return -EIO;
  if (request.file == FileId::kSwap && chance(read ? machine_.read_error : machine_.write_error)) {
    return -EIO;
  }
  std::uint64_t bytes = request.buffer.size();
  if (chance(machine_.short_transfer)) {
    bytes =
        std::uniform_int_distribution<std::uint64_t>(1, bytes / 512)(dispatcher_.random()) * 512;
  }
  if (!machine_.content) {
    // What was written without content is zeros.
    if (read && request.file == FileId::kSwap) std::memset(request.buffer.data(), 0, bytes);
    const std::uint64_t end =
        request.file == FileId::kModel ? disk_->model_bytes : disk_->swap_bytes;
    return request.offset >= end ? 0
                                 : static_cast<std::int64_t>(std::min(bytes, end - request.offset));
  }
  if (request.file == FileId::kModel) {
    const auto& file = *disk_->model_file;
    if (request.offset >= file.size()) return 0;
    bytes = std::min<std::uint64_t>(bytes, file.size() - request.offset);
    std::memcpy(request.buffer.data(), file.data() + request.offset, bytes);
    return static_cast<std::int64_t>(bytes);
  }
  auto& file = disk_->swap_file;
  if (request.offset + bytes > file.size()) return read ? 0 : -ENOSPC;
  if (!read) {
    std::memcpy(file.data() + request.offset, request.buffer.data(), bytes);
    return static_cast<std::int64_t>(bytes);
  }
  std::memcpy(request.buffer.data(), file.data() + request.offset, bytes);
  if (chance(machine_.bit_flip)) {
    const auto at =
        std::uniform_int_distribution<std::uint64_t>(0, bytes - 1)(dispatcher_.random());
    request.buffer[at] ^= std::byte{0x10};
  }
  return static_cast<std::int64_t>(bytes);
}

std::size_t SimStorage::reap(std::span<actors::BlockCompletion> out) noexcept {
  std::size_t count = 0;
  while (count < out.size() && !completed_.empty()) {
    out[count++] = completed_.front();
    completed_.pop_front();
  }
  return count;
}

Result<void> SimStorage::grow(FileId, std::uint64_t bytes) {
  if (!machine_.content) {
    disk_->swap_bytes = std::max(disk_->swap_bytes, bytes);
    return {};
  }
  if (bytes <= disk_->swap_file.size()) return {};
  if (chance(machine_.no_space)) return Error{ErrorCode::kNoSpace, ENOSPC, "grow", "swap file"};
  disk_->swap_file.resize(bytes);
  return {};
}

}  // namespace mzcache::sim
