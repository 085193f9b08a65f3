// The runtime inside an application: ask, take memory away, ask again. Everything is sent with Asio
// and completes on the application's own thread.
#include <mzcache/runtime.h>

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>
#include <cstdio>
#include <exception>
#include <string>

namespace {

asio::awaitable<void> talk(mzcache::Runtime& runtime, mzcache::Session session) {
  const auto print = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  };
  mzcache::GenerateOptions options;
  options.on_token = print;
  options.max_tokens = 64;

  co_await runtime.send(mzcache::Generate{session, "Name the capital of France.", options},
                        asio::use_awaitable);
  mzcache::Amount half;
  half.percent = 50;
  const auto evicted = co_await runtime.send(mzcache::Evict{half}, asio::use_awaitable);
  std::printf("\n[%.1f MiB given back]\n", static_cast<double>(evicted.freed_bytes) / 1048576);
  // The memory comes back while the device already computes.
  const auto answer = co_await runtime.send(mzcache::Generate{session, "And of Italy?", options},
                                            asio::use_awaitable);
  std::printf("\n[first token after %.0f ms]\n", answer.ttft_ms);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: embed MODEL.gguf\n", stderr);
    return 2;
  }
  try {
    mzcache::Runtime runtime;
    const mzcache::Model model = runtime.load(argv[1]);
    asio::io_context io;
    int status = 0;
    asio::co_spawn(io, talk(runtime, model.open_session()), [&status](std::exception_ptr failure) {
      if (!failure) return;
      status = 1;
      try {
        std::rethrow_exception(failure);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "embed: %s\n", error.what());
      }
    });
    io.run();
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "embed: %s\n", error.what());
    return 1;
  }
}
