// Behind the public Runtime: one loaded model, its sessions, and messages on their way to the
// coordinator. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "engine/chat_template.h"
#include "engine/token_index.h"
#include "engine/tokenizer.h"
#include "engine/wiring.h"
#include "mzcache/config.h"
#include "mzcache/runtime.h"

namespace mzcache {

class RuntimeImpl {
 public:
  RuntimeImpl(Config config, engine::NoticeSink notice);
  ~RuntimeImpl();
  RuntimeImpl(const RuntimeImpl&) = delete;
  RuntimeImpl& operator=(const RuntimeImpl&) = delete;

  void load(const std::string& file);
  // Cancels, waits for every answer, stops the actors. What comes later is refused.
  void shut_down();

  [[nodiscard]] Session open_session(const SessionOptions& options);
  // The wiring, kept alive and reachable while this exists; empty before load() and after
  // shut_down(). What is posted under it is answered.
  class Access {
   public:
    Access(std::shared_lock<std::shared_mutex> lock, engine::Wiring* wiring)
        : lock_(std::move(lock)), wiring_(wiring) {}
    explicit operator bool() const noexcept { return wiring_ != nullptr; }
    engine::Wiring* operator->() const noexcept { return wiring_; }
    [[nodiscard]] engine::Wiring* get() const noexcept { return wiring_; }

   private:
    std::shared_lock<std::shared_mutex> lock_;
    engine::Wiring* wiring_;
  };
  [[nodiscard]] Access access();
  // The same, or an Exception.
  [[nodiscard]] Access loaded();
  [[nodiscard]] const std::shared_ptr<const engine::Tokenizer>& tokenizer() const noexcept {
    return tokenizer_;
  }
  // Of the loaded model's vocabulary; made when it is first wanted, which takes a moment.
  [[nodiscard]] std::shared_ptr<const engine::TokenIndex> token_index();
  [[nodiscard]] const ModelInfo& info() const noexcept { return info_; }
  // Says so once where the model has no template and none was named: its turns are raw text.
  [[nodiscard]] std::shared_ptr<const engine::ChatTemplate> chat_template(Session session);
  [[nodiscard]] std::uint64_t next_request() noexcept { return ++requests_; }
  [[nodiscard]] actors::Timeline& timeline() noexcept { return timeline_; }
  [[nodiscard]] LoadReport load_report();
  [[nodiscard]] actors::Nanoseconds now() const noexcept {
    return std::chrono::steady_clock::now().time_since_epoch();
  }

 private:
  const Config config_;
  const engine::NoticeSink notice_;
  actors::Timeline timeline_;
  std::atomic<std::uint64_t> requests_{0};
  ModelInfo info_;
  std::shared_ptr<const engine::Tokenizer> tokenizer_;
  std::mutex token_index_mutex_;
  std::shared_ptr<const engine::TokenIndex> token_index_;
  std::string template_text_;
  actors::Nanoseconds load_begin_{0};
  double metadata_ms_ = 0;

  std::shared_mutex wiring_mutex_;
  std::unique_ptr<engine::Wiring> wiring_;
  struct SessionTemplate {
    std::shared_ptr<const engine::ChatTemplate> chat;
    bool to_say = false;  // it is raw because the model has none
  };
  std::mutex sessions_mutex_;
  std::uint32_t sessions_ = 0;
  std::map<std::uint32_t, SessionTemplate> templates_;
};

}  // namespace mzcache
