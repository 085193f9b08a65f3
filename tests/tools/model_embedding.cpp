// What an application does: every message with a callback, a future and a coroutine; completion on
// its own executor; cancelling; destroying the runtime in the middle of it all.
#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <exception>
#include <future>
#include <memory>
#include <thread>

#include "mzcache/runtime.h"
#include "support/catch.h"
#include "support/model_path.h"

namespace {

using mzcache::Answer;
using mzcache::ErrorCode;
using mzcache::StopReason;

mzcache::Evict evict_percent(double percent) {
  mzcache::Amount amount;
  amount.percent = percent;
  return mzcache::Evict{amount};
}

mzcache::Generate short_answer(mzcache::Session session) {
  mzcache::Generate message{session, "Name a colour.", {}, {}};
  message.options.max_tokens = 8;
  return message;
}

// Goes on until it is stopped: the end-of-turn token never wins.
mzcache::Generate endless_answer(mzcache::Session session) {
  mzcache::Generate message{session, "Tell a story.", {}, {}};
  message.options.max_tokens = 4000;
  message.options.logit_bias = {{2, -1000.0F}};
  return message;
}

}  // namespace

TEST_CASE("an answer that follows a grammar, and how likely its tokens were") {
  mzcache::Runtime runtime;
  const auto session = runtime.load(mzcache::test::model_path()).open_session();
  auto message = short_answer(session);
  message.options.grammar = "root ::= (\"red\" | \"green\" | \"blue\") \"!\"";
  message.options.logprobs = 2;
  const Answer answer = runtime.send(message, asio::use_future).get();
  INFO(answer.text);
  CHECK((answer.text == "red!" || answer.text == "green!" || answer.text == "blue!"));
  CHECK(answer.stop == StopReason::kEos);
  REQUIRE(answer.logprobs.size() == answer.tokens.size());
  for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
    CHECK(answer.logprobs[i].token == answer.tokens[i]);
    CHECK(answer.logprobs[i].top.size() == 2);
    CHECK(answer.logprobs[i].logprob <= answer.logprobs[i].top[0].logprob);
  }
  message.options.grammar = "root ::= colour";
  try {
    (void)runtime.send(message, asio::use_future).get();
    FAIL("no error");
  } catch (const std::system_error& error) {
    CHECK(error.code() == ErrorCode::kBadArgument);
  }
}

TEST_CASE("what the caller set wrongly is named") {
  mzcache::Runtime runtime;
  const auto model = runtime.load(mzcache::test::model_path());
  const auto field_of = [&](const mzcache::SessionOptions& options) {
    try {
      (void)model.open_session(options);
    } catch (const mzcache::Exception& exception) {
      CHECK(exception.error().code == ErrorCode::kBadArgument);
      return exception.error().field;
    }
    return std::string();
  };
  CHECK(field_of({}).empty());
  CHECK(field_of({.context_tokens = 1U << 30, .chat_template = {}}) == "context_tokens");
  CHECK(field_of({.context_tokens = 64, .chat_template = "nosuch"}) == "chat_template");
  CHECK(field_of({.context_tokens = 64, .chat_template = {}, .thinking = mzcache::Thinking::kOn}) ==
        "thinking");
  // A bias of a token the model does not have could never do anything.
  const auto vocabulary = static_cast<mzcache::Token>(model.info().vocabulary);
  auto message = short_answer(model.open_session());
  asio::io_context io;
  int refused = 0;
  for (const mzcache::Token token : {vocabulary, mzcache::Token{-1}}) {
    message.options.logit_bias = {{token, 1.0F}};
    const std::string what = "logit_bias: token " + std::to_string(token) +
                             " is not in the vocabulary of " + std::to_string(vocabulary);
    runtime.send(message,
                 asio::bind_executor(io, [&, what](std::error_code error, const Answer& answer) {
                   CHECK(error == ErrorCode::kBadArgument);
                   CHECK(answer.detail.find(what) != std::string::npos);
                   ++refused;
                 }));
  }
  io.run();
  CHECK(refused == 2);
}

TEST_CASE("sessions choose their template, and are refused a switch that is not there") {
  mzcache::Runtime runtime;
  const auto model = runtime.load(mzcache::test::model_path());
  CHECK_NOTHROW((void)model.open_session({.context_tokens = 64, .chat_template = "raw"}));
  CHECK_THROWS_AS((void)model.open_session({.context_tokens = 64, .chat_template = "llama3"}),
                  mzcache::Exception);
  CHECK_THROWS_AS(
      (void)model.open_session(
          {.context_tokens = 64, .chat_template = "", .thinking = mzcache::Thinking::kOn}),
      mzcache::Exception);
}

TEST_CASE("every message with a callback, on the caller's executor") {
  mzcache::Runtime runtime;
  const auto session = runtime.load(mzcache::test::model_path()).open_session();
  asio::io_context io;
  const auto here = std::this_thread::get_id();
  int completed = 0;
  std::string streamed;
  auto message = short_answer(session);
  message.options.on_token = [&](std::string_view text) {
    CHECK(std::this_thread::get_id() == here);
    streamed += text;
  };
  runtime.send(std::move(message),
               asio::bind_executor(io, [&](std::error_code error, const Answer& answer) {
                 CHECK(std::this_thread::get_id() == here);
                 CHECK_FALSE(error);
                 CHECK(answer.text == streamed);
                 CHECK_FALSE(answer.tokens.empty());
                 ++completed;
               }));
  io.run();
  io.restart();
  runtime.send(evict_percent(50),
               asio::bind_executor(io, [&](std::error_code error, const mzcache::EvictReport& r) {
                 CHECK(std::this_thread::get_id() == here);
                 CHECK_FALSE(error);
                 CHECK(r.freed_bytes >= r.requested_bytes);
                 ++completed;
               }));
  io.run();
  io.restart();
  runtime.send(mzcache::Restore{},
               asio::bind_executor(io, [&](std::error_code error, const mzcache::RestoreReport& r) {
                 CHECK(std::this_thread::get_id() == here);
                 CHECK_FALSE(error);
                 CHECK(r.bytes_read > 0);
                 ++completed;
               }));
  io.run();
  CHECK(completed == 3);
}

TEST_CASE("every message with a future") {
  mzcache::Runtime runtime;
  const auto session = runtime.load(mzcache::test::model_path()).open_session();
  const Answer first = runtime.send(short_answer(session), asio::use_future).get();
  CHECK_FALSE(first.tokens.empty());
  const auto evicted = runtime.send(evict_percent(100), asio::use_future).get();
  CHECK(evicted.remaining_percent < 0.001);
  const auto restored = runtime.send(mzcache::Restore{}, asio::use_future).get();
  CHECK(restored.bytes_read > 0);
  const auto status = runtime.send(mzcache::Status{}, asio::use_future).get();
  CHECK(status.resident.bytes == status.footprint_bytes);
}

TEST_CASE("every message in a coroutine") {
  mzcache::Runtime runtime;
  const auto session = runtime.load(mzcache::test::model_path()).open_session();
  asio::io_context io;
  bool finished = false;
  auto talk = [&]() -> asio::awaitable<void> {
    auto message = short_answer(session);
    const auto answer = co_await runtime.send(message, asio::use_awaitable);
    CHECK_FALSE(answer.tokens.empty());
    auto half = evict_percent(50);
    const auto evicted = co_await runtime.send(half, asio::use_awaitable);
    CHECK(evicted.freed_bytes > 0);
    co_await runtime.send(mzcache::Restore{}, asio::use_awaitable);
    finished = true;
  };
  asio::co_spawn(io, talk(), [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  });
  io.run();
  CHECK(finished);
}

TEST_CASE("a cancellation slot stops an answer") {
  mzcache::Runtime runtime;
  const auto session = runtime.load(mzcache::test::model_path()).open_session();
  asio::io_context io;
  asio::cancellation_signal cancel;
  auto message = endless_answer(session);
  int pieces = 0;
  message.options.on_token = [&](std::string_view) {
    if (++pieces == 3) cancel.emit(asio::cancellation_type::terminal);
  };
  bool completed = false;
  runtime.send(
      std::move(message),
      asio::bind_cancellation_slot(
          cancel.slot(), asio::bind_executor(io, [&](std::error_code error, const Answer& answer) {
            completed = true;
            CHECK((error == ErrorCode::kCancelled || !error));
            CHECK(answer.stop == StopReason::kCancelled);
            CHECK(answer.tokens.size() < 4000);
          })));
  io.run();
  CHECK(completed);
  // The conversation goes on.
  const Answer next = runtime.send(short_answer(session), asio::use_future).get();
  CHECK_FALSE(next.tokens.empty());
}

TEST_CASE("destroying the runtime completes every message") {
  auto runtime = std::make_unique<mzcache::Runtime>();
  const auto session = runtime->load(mzcache::test::model_path()).open_session();
  asio::io_context io;
  int completed = 0;
  auto message = endless_answer(session);
  message.options.on_token = [&](std::string_view) { runtime.reset(); };
  runtime->send(std::move(message),
                asio::bind_executor(io, [&](std::error_code, const Answer&) { ++completed; }));
  runtime->send(short_answer(session),
                asio::bind_executor(io, [&](std::error_code error, const Answer&) {
                  CHECK(error == ErrorCode::kCancelled);
                  ++completed;
                }));
  runtime->send(mzcache::Restore{},
                asio::bind_executor(
                    io, [&](std::error_code, const mzcache::RestoreReport&) { ++completed; }));
  io.run();
  CHECK(completed == 3);
  CHECK(runtime == nullptr);
}
