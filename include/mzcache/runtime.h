// The runtime an app embeds: load a model, open sessions, send messages.
//
//   mzcache::Runtime runtime(mzcache::Config::load("mzcache.toml"));
//   auto model = runtime.load("model.gguf");
//   auto session = model.open_session();
//   auto answer = co_await runtime.send(mzcache::Generate{session, "…"}, asio::use_awaitable);
//
// Every message is sent with any Asio completion token of signature
// void(std::error_code, Message::Report) and completes on the executor associated with it. A
// cancellation slot cancels a Generate, Evaluate or Restore. Destroying the Runtime cancels what is
// under way and completes every message. Runtime, Model and their const functions are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mzcache/config.h"
#include "mzcache/detail/completion.h"
#include "mzcache/messages.h"
#include "mzcache/model_info.h"
#include "mzcache/reports.h"
#include "mzcache/vocabulary.h"

namespace mzcache {

class RuntimeImpl;

struct SessionOptions {
  std::uint32_t context_tokens = 0;  // limit; 0: the model's own
  std::string chat_template;         // "": chosen from the file; "raw", "chatml", …
  // Anything but the default is refused where the chat template has no such switch.
  Thinking thinking = Thinking::kDefault;
};

// A loaded model (its metadata; weights come with the first Generate). A handle.
class Model {
 public:
  [[nodiscard]] Session open_session(const SessionOptions& options = {}) const;
  [[nodiscard]] std::vector<Token> tokenize(std::string_view text,
                                            const TokenizeOptions& options = {}) const;
  [[nodiscard]] std::string piece(Token token) const;  // special tokens by name
  [[nodiscard]] const ModelInfo& info() const;

 private:
  friend class Runtime;
  explicit Model(std::shared_ptr<RuntimeImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<RuntimeImpl> impl_;
};

class Runtime {
 public:
  // Throws Exception (kBadConfig, kNotFound for a device, …). `notice` gets one line for people
  // whenever something falls back (no direct I/O, no ring, …); default: none.
  explicit Runtime(Config config = {}, std::function<void(std::string_view)> notice = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Reads the model's metadata and opens the device. One model at a time. Throws Exception.
  [[nodiscard]] Model load(const std::string& file);

  template <class Message, class CompletionToken>
  auto send(Message message, CompletionToken&& token) {
    using Report = typename Message::Report;
    return asio::async_initiate<CompletionToken, void(std::error_code, Report)>(
        [impl = impl_](auto handler, Message moved) {
          detail::start(impl, std::move(moved),
                        detail::make_completion<Report>(std::move(handler), impl));
        },
        token, std::move(message));
  }

  [[nodiscard]] LoadReport load_report() const;
  // The device in use: name and how units are held ("host mapping", …).
  [[nodiscard]] DeviceSummary device() const;
  // Actor timelines since the start or the last call with `clear`. Recording begins with
  // config trace.file or start_trace(). Throws Exception where the file cannot be written.
  void start_trace();
  void write_trace(const std::string& file, bool clear = true);

 private:
  std::shared_ptr<RuntimeImpl> impl_;
};

}  // namespace mzcache
