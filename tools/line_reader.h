// Lines of standard input for an io_context: from a terminal, a pipe or a file alike. A thread of
// its own polls, because regular files cannot be waited on by the io_context itself.
#pragma once

#include <asio/any_io_executor.hpp>
#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace mzcache::tools {

class LineReader {
 public:
  // `on_line` runs on `executor`; nullopt once, at the end of the input.
  LineReader(asio::any_io_executor executor,
             std::function<void(std::optional<std::string>)> on_line);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

 private:
  void read_all();
  void deliver(std::optional<std::string> line);

  asio::any_io_executor executor_;
  std::function<void(std::optional<std::string>)> on_line_;
  int stop_[2] = {-1, -1};  // a pipe: closing its end wakes the thread
  std::thread thread_;
};

}  // namespace mzcache::tools
