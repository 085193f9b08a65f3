#include "line_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <asio/post.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

namespace mzcache::tools {

LineReader::LineReader(asio::any_io_executor executor,
                       std::function<void(std::optional<std::string>)> on_line)
    : executor_(std::move(executor)), on_line_(std::move(on_line)) {
  if (::pipe2(stop_, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "read standard input");
  }
  thread_ = std::thread([this] { read_all(); });
}

LineReader::~LineReader() {
  ::close(stop_[1]);
  thread_.join();
  ::close(stop_[0]);
}

void LineReader::deliver(std::optional<std::string> line) {
  asio::post(executor_, [on_line = on_line_, moved = std::move(line)]() mutable {
    on_line(std::move(moved));
  });
}

void LineReader::read_all() {
  std::string pending;
  std::array<char, 4096> buffer;
  for (;;) {
    std::array<pollfd, 2> waits{{{STDIN_FILENO, POLLIN, 0}, {stop_[0], POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) break;
    if (waits[1].revents != 0) return;
    if (waits[0].revents == 0) continue;
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) break;
    pending.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
      deliver(pending.substr(0, end));
      pending.erase(0, end + 1);
    }
  }
  if (!pending.empty()) deliver(std::move(pending));
  deliver(std::nullopt);
}

}  // namespace mzcache::tools
