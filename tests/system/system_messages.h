// The messages of the system tests, sent and waited for.
#pragma once

#include <asio/use_future.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "mzcache/runtime.h"

namespace mzcache::test {

// The report, or an Exception-like std::system_error where the message failed.
template <class Message>
typename Message::Report ask(Runtime& runtime, Message message) {
  return runtime.send(std::move(message), asio::use_future).get();
}

inline Evict evict_percent(double percent) {
  Amount amount;
  amount.percent = percent;
  return Evict{amount};
}

inline Evaluate evaluate(Session session, std::vector<Token> tokens) {
  Evaluate message;
  message.session = session;
  message.positions = {static_cast<std::uint32_t>(tokens.size() - 1)};
  message.tokens = std::move(tokens);
  return message;
}

inline Generate generate(Session session, std::vector<Token> tokens, std::uint32_t max_tokens) {
  Generate message;
  message.session = session;
  message.tokens = std::move(tokens);
  message.options.max_tokens = max_tokens;
  return message;
}

// Ordinary tokens, the same for the same seed.
inline std::vector<Token> some_tokens(std::size_t count, Token below, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Token> tokens(count);
  for (Token& token : tokens) {
    token = static_cast<Token>(3 + random() % static_cast<std::uint64_t>(below - 3));
  }
  return tokens;
}

// A tiny model that is always there.
inline std::string golden_model(const std::string& name) {
  return MZCACHE_SOURCE_DIR "/tests/golden/models/" + name + ".gguf";
}

}  // namespace mzcache::test
