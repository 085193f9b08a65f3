// The runtime inside an application: ask, take memory away, ask again. Everything is sent with Asio
// and completes on the application's own thread.
#include <mzcache/runtime.h>

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>
#include <exception>
#include <iostream>

namespace {

void print(std::string_view text) { std::cout << text << std::flush; }

void report(const std::exception_ptr& failure) {
  if (failure) std::rethrow_exception(failure);
}

void embed(const char* file) {
  asio::io_context io;
  // What README.md shows begins here.
  mzcache::Runtime runtime;
  auto session = runtime.load(file).open_session();
  auto talk = [&]() -> asio::awaitable<void> {
    mzcache::Generate question{session, "Name the capital of France.", {.on_token = print}, {}};
    co_await runtime.send(question, asio::use_awaitable);

    mzcache::Evict half{mzcache::Amount{.percent = 50}};
    auto evicted = co_await runtime.send(half, asio::use_awaitable);
    std::cout << "\n[" << evicted.freed_bytes << " bytes given back]\n";

    // The memory comes back while the device already computes.
    question.prompt = "And of Italy?";
    auto answer = co_await runtime.send(question, asio::use_awaitable);
    std::cout << "\n[first token after " << answer.ttft_ms << " ms]\n";
  };
  asio::co_spawn(io, talk(), report);
  io.run();
  // And ends here.
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: embed MODEL.gguf\n";
    return 2;
  }
  try {
    embed(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "embed: " << error.what() << '\n';
    return 1;
  }
}
