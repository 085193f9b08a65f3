// What the tests of the whole system share: a runtime with one model, messages sent and waited for,
// golden files. Only the public headers. Not thread-safe.
#pragma once

#include <asio/use_future.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "mzcache/runtime.h"

namespace mzcache::test {

// "key=value" as on the command line, over the defaults.
using Settings = std::vector<std::string>;

// A runtime that has loaded a model, with one session.
class System {
 public:
  explicit System(const std::string& model, const Settings& settings = {});

  // The report; a failure is an Exception.
  template <class Message>
  typename Message::Report ask(Message message) {
    return runtime_.send(std::move(message), asio::use_future).get();
  }

  // Logits at `positions` (counted within `tokens`), one row after the other.
  [[nodiscard]] std::vector<float> logits(std::span<const Token> tokens,
                                          std::vector<std::uint32_t> positions,
                                          std::uint32_t slice_tokens = 512);
  [[nodiscard]] std::vector<float> last_logits(std::span<const Token> tokens,
                                               std::uint32_t slice_tokens = 512);
  EvictReport evict(double percent);
  RestoreReport restore() { return ask(Restore{}); }
  StatusReport status() { return ask(Status{}); }
  // Forgets the conversation.
  void reset() { (void)ask(Reset{session_}); }

  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] Session session() const { return session_; }

 private:
  Runtime runtime_;
  Model model_;
  Session session_;
};

[[nodiscard]] double rms_difference(std::span<const float> a, std::span<const float> b);
// NaN-proof and strict about the sign of zero: the same bits.
[[nodiscard]] bool same_bits(std::span<const float> a, std::span<const float> b);
// Float32 little-endian, whatever the file holds.
[[nodiscard]] std::vector<float> read_floats(const std::string& path);
// Ids that look like text to nobody, the same on every machine.
[[nodiscard]] std::vector<Token> made_up_tokens(std::uint32_t count, std::uint32_t vocabulary);

// tests/golden of the source tree.
[[nodiscard]] std::string committed_golden();
// MZCACHE_GOLDEN, empty where it is not set.
[[nodiscard]] std::string more_golden();

}  // namespace mzcache::test
